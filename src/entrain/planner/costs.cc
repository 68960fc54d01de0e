#include "entrain/planner/costs.h"

#include "entrain/base/error.h"

namespace entrain::planner {

void require_profile(const graph::Graph& graph) {
  if (graph.layers.empty()) {
    bad_input("graph {}: it has no layers, allowed: a model that is a sequence of layers", graph.model);
  }
  for (const graph::Layer& layer : graph.layers) {
    if (layer.times.empty()) {
      bad_input("graph {}: layer {} has no times, allowed: layers that were profiled", graph.model,
                layer.name);
    }
  }
}

PassTimes::PassTimes(const graph::Graph& graph, int64_t examples) : forward_{0}, backward_{0} {
  for (const graph::Layer& layer : graph.layers) {
    const graph::LayerTime time = layer.time_of(examples);
    forward_.push_back(forward_.back() + time.forward_s);
    backward_.push_back(backward_.back() + time.backward_s);
  }
}

LayerBytes::LayerBytes(const graph::Graph& graph)
    : layers_(graph.layers.size()), kept_{0}, crossing_(layers_ + 1, 0) {
  const size_t ranges = (layers_ + 1) * (layers_ + 1);
  parameters_.assign(ranges, 0);
  gradients_.assign(ranges, 0);
  std::vector<int> last_begin(graph.variables.size());  // 1 + the begin of the last range that counted it
  for (int begin = 0; begin < static_cast<int>(layers_); ++begin) {
    for (int end = begin + 1; end <= static_cast<int>(layers_); ++end) {
      double parameters = parameters_[index(begin, end - 1)], gradients = gradients_[index(begin, end - 1)];
      for (const int v : graph.layers[static_cast<size_t>(end) - 1].variables) {
        if (last_begin[static_cast<size_t>(v)] == begin + 1) continue;
        last_begin[static_cast<size_t>(v)] = begin + 1;
        parameters += static_cast<double>(graph.variables[static_cast<size_t>(v)].bytes());
        gradients += static_cast<double>(graph.variables[static_cast<size_t>(v)].step_bytes());
      }
      parameters_[index(begin, end)] = parameters;
      gradients_[index(begin, end)] = gradients;
    }
  }
  crossing_[0] = static_cast<double>(graph.input_bytes);
  for (size_t l = 0; l < layers_; ++l) {
    kept_.push_back(kept_.back() + static_cast<double>(graph.layers[l].kept_bytes));
    if (l + 1 < layers_) crossing_[l + 1] = static_cast<double>(graph.layers[l].output_bytes);
  }
  for (const graph::Skip& skip : graph.skips) {
    for (int cut = skip.from + 1; cut <= skip.to; ++cut) {
      crossing_[static_cast<size_t>(cut)] += static_cast<double>(skip.bytes);
    }
  }
}

}  // namespace entrain::planner
