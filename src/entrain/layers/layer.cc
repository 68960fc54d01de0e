#include "entrain/layers/layer.h"

#include "entrain/base/error.h"

namespace entrain::layers {

void Skips::stash(const std::string& name, torch::Tensor value) {
  if (!values_.emplace(name, std::move(value)).second) fail("skip '{}' is stashed twice", name);
}

torch::Tensor Skips::pop(const std::string& name) {
  const auto found = values_.find(name);
  if (found == values_.end()) fail("skip '{}' is popped but was not stashed", name);
  torch::Tensor value = std::move(found->second);
  values_.erase(found);
  return value;
}

std::vector<torch::Tensor> Layer::parameters() const {
  std::vector<torch::Tensor> result = module ? module->parameters() : std::vector<torch::Tensor>{};
  result.insert(result.end(), borrowed.begin(), borrowed.end());
  return result;
}

bool draws_random(const torch::nn::Module& module) {
  namespace nn = torch::nn;
  for (const auto& part : module.modules()) {
    if (part->as<nn::Dropout>() || part->as<nn::Dropout2d>() || part->as<nn::Dropout3d>() ||
        part->as<nn::AlphaDropout>() || part->as<nn::FeatureAlphaDropout>() || part->as<nn::RReLU>() ||
        part->as<nn::FractionalMaxPool2d>() || part->as<nn::FractionalMaxPool3d>() ||
        part->as<nn::MultiheadAttention>()) {
      return true;
    }
    const auto* lstm = part->as<nn::LSTM>();
    const auto* gru = part->as<nn::GRU>();
    const auto* rnn = part->as<nn::RNN>();
    if ((lstm && lstm->options.dropout() > 0) || (gru && gru->options.dropout() > 0) ||
        (rnn && rnn->options.dropout() > 0)) {
      return true;
    }
  }
  return false;
}

torch::Tensor forward(const Sequence& sequence, const torch::Tensor& input) {
  Skips skips;
  torch::Tensor x = input;
  for (const Layer& layer : sequence.layers) x = layer.forward(x, skips);
  return x;
}

std::vector<Layer> layers_of(const torch::nn::Sequential& modules) {
  std::vector<Layer> result;
  for (const auto& item : modules->named_children()) {
    const auto at = static_cast<size_t>(result.size());
    torch::nn::AnyModule any = *(modules->begin() + static_cast<std::ptrdiff_t>(at));
    result.push_back({item.key(),
                      item.value(),
                      [any](const torch::Tensor& x, Skips&) mutable { return any.forward(x); },
                      {},
                      {},
                      {},
                      draws_random(*item.value())});
  }
  return result;
}

void check_skips(const std::vector<Layer>& layers) {
  std::map<std::string, std::string> open;  // skip: who stashed it
  for (const Layer& layer : layers) {
    for (const std::string& name : layer.pops) {
      if (open.erase(name) == 0)
        bad_input("layer '{}' pops skip '{}', which no layer before it stashes", layer.name, name);
    }
    for (const std::string& name : layer.stashes) {
      if (!open.emplace(name, layer.name).second) {
        bad_input("layer '{}' stashes skip '{}', which '{}' has stashed", layer.name, name, open[name]);
      }
    }
  }
  if (!open.empty()) {
    bad_input("layer '{}' stashes skip '{}', which no layer pops", open.begin()->second, open.begin()->first);
  }
}

}  // namespace entrain::layers
