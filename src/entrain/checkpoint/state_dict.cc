#include "entrain/checkpoint/state_dict.h"

#include <fmt/ranges.h>

#include <map>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/tensor_files/safetensors.h"

namespace entrain::checkpoint {

void save_state_dict(const models::Model& model, const std::filesystem::path& path) {
  tensor_files::TensorFile file;
  file.metadata = {{"format", "pt"}};  // as safetensors.torch marks its own
  for (auto& [name, tensor] : model.state()) file.tensors.emplace_back(name, tensor.detach());
  tensor_files::write_safetensors(path, file);
}

// A tied tensor is there when it is under one of its names: safetensors.torch writes it once.
void load_state_dict(models::Model& model, const std::filesystem::path& path) {
  auto file = tensor_files::read_safetensors(path);
  std::map<std::string, torch::Tensor> saved(file.tensors.begin(), file.tensors.end());
  std::map<const void*, torch::Tensor> values;  // by the model's tensor
  const auto state = model.state();
  for (const auto& [name, tensor] : state) {
    const auto entry = saved.extract(name);
    if (entry.empty()) continue;
    if (entry.mapped().sizes() != tensor.sizes()) {
      bad_input("`init` {}: variable {} is [{}] there, but [{}] in the model", path.string(), name,
                fmt::join(entry.mapped().sizes(), ", "), fmt::join(tensor.sizes(), ", "));
    }
    values[tensor.unsafeGetTensorImpl()] = entry.mapped();
  }
  if (!saved.empty()) {
    bad_input("`init` {}: its variable {} is not in the model", path.string(), saved.begin()->first);
  }
  for (const auto& [name, tensor] : state) {
    if (values.contains(tensor.unsafeGetTensorImpl())) continue;
    if (tensor.requires_grad()) {
      bad_input("`init` {}: variable {} [{}] of the model is not in it", path.string(), name,
                fmt::join(tensor.sizes(), ", "));
    }
    log_warn("`init` {}: {} is not in it and keeps its value", path.string(), name);
  }
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : state) {
    const auto found = values.find(tensor.unsafeGetTensorImpl());
    if (found != values.end()) torch::Tensor(tensor).copy_(found->second);
  }
}

}  // namespace entrain::checkpoint
