#include "entrain/simulator/analytic/layer_sums.h"

#include <mutex>

#include "entrain/base/error.h"

namespace entrain::simulator {

LayerSums::LayerSums(const graph::Graph& graph) : graph_(graph) {
  if (graph.layers.empty())
    bad_input("graph {}: it has no layers, so no shape can be simulated", graph.model);
  for (const auto& layer : graph.layers) {
    if (layer.times.empty()) {
      bad_input("graph {}: layer {} has no `times`, allowed: one or more (a profile of the layers)",
                graph.model, layer.name);
    }
  }
}

const LayerSums::Times& LayerSums::times(int64_t examples) const {
  {
    const std::shared_lock lock(mutex_);
    const auto found = times_.find(examples);
    if (found != times_.end()) return *found->second;
  }
  auto made = std::make_unique<Times>();
  double forward = 0, backward = 0;
  for (const auto& layer : graph_.layers) {
    made->forward.push_back(forward);
    made->backward.push_back(backward);
    const graph::LayerTime time = layer.time_of(examples);
    forward += time.forward_s;
    backward += time.backward_s;
  }
  made->forward.push_back(forward);
  made->backward.push_back(backward);
  const std::unique_lock lock(mutex_);
  return *times_.try_emplace(examples, std::move(made)).first->second;
}

}  // namespace entrain::simulator
