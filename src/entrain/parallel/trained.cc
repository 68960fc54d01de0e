#include "entrain/parallel/trained.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <unordered_set>

namespace entrain::parallel {

graph::NamedTensors held_tensors(const torch::nn::Module& module, torch::optim::Optimizer* optimizer) {
  graph::NamedTensors named;
  std::unordered_set<const c10::TensorImpl*> seen;
  const auto add = [&](std::string name, const torch::Tensor& tensor) {
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second) {
      named.emplace_back(std::move(name), tensor);
    }
  };
  for (const auto& item : module.named_parameters()) add(item.key(), item.value());
  if (optimizer == nullptr) return named;
  const auto& groups = optimizer->param_groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto& tensors = groups[g].params();
    for (size_t i = 0; i < tensors.size(); ++i) add(fmt::format("optimizer.{}.{}", g, i), tensors[i]);
  }
  return named;
}

graph::NamedTensors trained_tensors(const torch::nn::Module& module, torch::optim::Optimizer* optimizer) {
  graph::NamedTensors named = held_tensors(module, optimizer);
  std::erase_if(named, [](const auto& item) { return !item.second.requires_grad(); });
  return named;
}

}  // namespace entrain::parallel
