// Models that are a sequence of layers, and what they are made of.
#pragma once

#include <initializer_list>
#include <utility>

#include "entrain/models/model.h"

namespace entrain::models {

// Its loss is what its sequence computes.
class SequentialModel : public Model {
 public:
  torch::Tensor loss(const Batch& batch) final {
    const layers::Sequence whole = sequence();
    return whole.loss(layers::forward(whole, batch.input), batch.target);
  }

  layers::Sequence sequence() override = 0;
};

// One module around those that a layer uses together. They stay children of the model, under the names they
// have there: the model's state dict does not show how it is cut.
inline std::shared_ptr<torch::nn::Module> group(
    std::initializer_list<std::pair<std::string, std::shared_ptr<torch::nn::Module>>> modules) {
  auto result = std::make_shared<torch::nn::Module>();
  for (const auto& [name, module] : modules) result->register_module(name, module);
  return result;
}

// The layers of `modules`, named as its parameters are: "stages.0", "stages.1", ...
inline std::vector<layers::Layer> layers_of(const std::string& name, const torch::nn::Sequential& modules) {
  std::vector<layers::Layer> result = layers::layers_of(modules);
  for (layers::Layer& layer : result) layer.name = name + "." + layer.name;
  return result;
}

}  // namespace entrain::models
