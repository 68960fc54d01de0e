#include "entrain/pipeline/profile/layer_costs.h"

#include <algorithm>
#include <map>

#include "entrain/base/error.h"

namespace entrain::pipeline {
namespace {

using layers::Layer;

// In the order of the layers that leave them, and there in that of Layer::stashes: note_skips relies on it.
std::vector<Need> join_skips(const std::vector<Layer>& layers) {
  std::vector<Need> skips;
  for (size_t i = 0; i < layers.size(); ++i) {
    for (const std::string& name : layers[i].stashes) {
      const auto pops = [&](const Layer& layer) {
        return std::find(layer.pops.begin(), layer.pops.end(), name) != layer.pops.end();
      };
      const auto taker =
          std::find_if(layers.begin() + static_cast<std::ptrdiff_t>(i) + 1, layers.end(), pops);
      skips.push_back({static_cast<int>(i), static_cast<int>(taker - layers.begin()), 0});
    }
  }
  return skips;
}

}  // namespace

int64_t SequenceCosts::parameter_bytes() const {
  int64_t sum = 0;
  for (const LayerCost& layer : layers) sum += layer.parameter_bytes;
  return sum;
}

double SequenceCosts::flops() const {
  double sum = 0;
  for (const LayerCost& layer : layers) sum += layer.flops;
  return sum;
}

FitRequest request_for(const SequenceCosts& costs) {
  FitRequest request;
  request.layers = costs.layers;
  request.profiled_batch = costs.batch;
  request.input_bytes = costs.input_bytes;
  request.skips = costs.skips;
  request.ties = costs.ties;
  return request;
}

SequenceCosts describe_layers(const layers::Sequence& sequence, const torch::Tensor& input) {
  if (sequence.layers.empty()) bad_input("pipeline: the model is not a sequence of layers");
  layers::check_skips(sequence.layers);
  SequenceCosts costs;
  costs.batch = static_cast<int>(input.size(0));
  costs.input_bytes = static_cast<int64_t>(input.nbytes());
  std::map<const void*, int> owner;  // by parameter: the layer that has it
  for (size_t i = 0; i < sequence.layers.size(); ++i) {
    const Layer& layer = sequence.layers[i];
    LayerCost cost;
    cost.name = layer.name;
    if (layer.module) {
      for (const auto& parameter : layer.module->parameters()) {
        if (!owner.emplace(parameter.unsafeGetTensorImpl(), static_cast<int>(i)).second) continue;
        cost.parameter_bytes += static_cast<int64_t>(parameter.nbytes());
      }
    }
    costs.layers.push_back(std::move(cost));
  }
  for (size_t i = 0; i < sequence.layers.size(); ++i) {
    for (const auto& parameter : sequence.layers[i].borrowed) {
      const auto found = owner.find(parameter.unsafeGetTensorImpl());
      if (found == owner.end()) continue;
      const int borrower = static_cast<int>(i);
      costs.ties.push_back({std::min(found->second, borrower), std::max(found->second, borrower),
                            static_cast<int64_t>(parameter.nbytes())});
    }
  }
  costs.skips = join_skips(sequence.layers);
  return costs;
}

void note_skips(const layers::Sequence& sequence, size_t i, layers::Skips& skips, SequenceCosts* costs) {
  auto next = std::find_if(costs->skips.begin(), costs->skips.end(),
                           [&](const Need& skip) { return skip.from == static_cast<int>(i); });
  for (const std::string& name : sequence.layers[i].stashes) {
    torch::Tensor value = skips.pop(name);
    (next++)->bytes = static_cast<int64_t>(value.nbytes());
    skips.stash(name, std::move(value));
  }
}

}  // namespace entrain::pipeline
