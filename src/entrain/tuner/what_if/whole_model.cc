#include "entrain/tuner/what_if/whole_model.h"

#include <algorithm>

#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::tuner {
namespace {

// Makes `times` of the variables add up to `total`: in proportion, or equally where they are unknown.
void make_sum(std::vector<graph::Variable>& variables, double graph::Variable::*times, double total) {
  double sum = 0;
  for (const auto& v : variables) sum += v.*times;
  for (auto& v : variables) {
    v.*times = sum > 0 ? v.*times * total / sum : total / static_cast<double>(variables.size());
  }
}

}  // namespace

graph::Graph at_batch(const graph::Graph& graph, int64_t examples) {
  graph::Graph result = graph;
  double forward = 0, backward = 0;
  for (const auto& layer : graph.layers) {
    const graph::LayerTime time = layer.time_of(examples);
    forward += time.forward_s;
    backward += time.backward_s;
  }
  make_sum(result.variables, &graph::Variable::forward_s, forward);
  make_sum(result.variables, &graph::Variable::backward_s, backward);
  for (auto& v : result.variables) {
    if (!v.sparse || graph.batch_size < 1) continue;
    v.rows_per_step = std::min(v.shape[0], v.rows_per_step * examples / graph.batch_size);
  }
  result.batch_size = examples;
  return result;
}

std::optional<Priced> price_whole_model(const graph::Graph& graph, const cluster::Cluster& cluster,
                                        const simulator::Calibration& calibration, PricerOptions options) {
  options.builders = strategy::names();
  const int workers = cluster.workers();
  const strategy::Shape shape =
      strategy::data_parallel(static_cast<int>(graph.layers.size()), cluster.worker_ranks());
  auto shaped = ShapePricer(graph, cluster, calibration, options).price(shape);
  if (!shaped || workers < 2 || workers > kMostExactRanks || options.examples % workers != 0) return shaped;
  const graph::Graph profiled = at_batch(graph, options.examples / workers);
  const simulator::EventSimulation simulation(profiled, cluster, calibration);
  std::optional<Priced> best;
  for (const auto& builder : options.builders) {
    strategy::Strategy strategy = strategy::build(builder, profiled, cluster, options.seed);
    const double seconds = simulation.estimate(strategy).seconds;
    if (best && seconds >= best->seconds) continue;
    strategy.shape = shape;
    strategy.id = strategy::to_text(shape) + " " + builder;
    best = {std::move(strategy), seconds};
  }
  return best;
}

}  // namespace entrain::tuner
