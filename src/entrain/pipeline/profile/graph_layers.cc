#include "entrain/pipeline/profile/graph_layers.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace entrain::pipeline {
namespace {

// Of G, that the layer reads, ascending.
std::vector<int> variables_read(const graph::Graph& graph, const torch::nn::Module& module,
                                const layers::Layer& layer) {
  std::set<int> found;
  const auto read = layer.parameters();
  for (const auto& item : module.named_parameters()) {
    const auto is_it = [&](const torch::Tensor& tensor) { return tensor.is_same(item.value()); };
    const int v = graph.find(item.key());
    if (v >= 0 && std::any_of(read.begin(), read.end(), is_it)) found.insert(v);
  }
  return {found.begin(), found.end()};
}

}  // namespace

std::vector<int64_t> profiled_sizes(int64_t batch) {
  const auto some = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(batch))));
  const std::set<int64_t> sizes = {1, some, batch};
  return {sizes.begin(), sizes.end()};
}

void add_layers(graph::Graph& graph, const torch::nn::Module& module, const layers::Sequence& sequence,
                const torch::Tensor& input, const torch::Tensor& target, const std::vector<int64_t>& sizes,
                const MeasureOptions& options) {
  graph.layers.clear();
  graph.skips.clear();
  for (const layers::Layer& layer : sequence.layers) {
    graph.layers.push_back({layer.name, variables_read(graph, module, layer)});
  }
  for (const int64_t size : sizes) {
    const SequenceCosts costs =
        measure_layers(sequence, input.narrow(0, 0, size), target.narrow(0, 0, size), options);
    for (size_t l = 0; l < graph.layers.size(); ++l) {
      const LayerCost& cost = costs.layers[l];
      graph.layers[l].times.push_back({size, cost.forward_s, cost.backward_s});
      graph.layers[l].output_bytes = cost.output_bytes / size;
      graph.layers[l].kept_bytes = cost.internal_bytes / size;
    }
    graph.input_bytes = costs.input_bytes / size;
    graph.skips.clear();
    for (const Need& skip : costs.skips) graph.skips.push_back({skip.from, skip.to, skip.bytes / size});
  }
}

}  // namespace entrain::pipeline
