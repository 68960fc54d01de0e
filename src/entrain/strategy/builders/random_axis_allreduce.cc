// AutoDist's RandomAxisPartitionAR: as partitioned_allreduce, but along an axis drawn from the seed among
// those that can be cut.
#include <random>

#include "entrain/strategy/builders/builders.h"
#include "entrain/strategy/builders/parts.h"

namespace entrain::strategy {

Configs build_random_axis_allreduce(const graph::Graph& graph, const cluster::Cluster&, uint64_t seed) {
  std::mt19937_64 random(seed);
  Configs configs(graph.variables.size());
  int group = 0;
  for (const int i : by_readiness(graph)) {
    const graph::Variable& v = graph.variables[i];
    std::vector<int> axes;
    for (size_t axis = 0; axis < v.shape.size() && !v.sparse; ++axis) {
      if (smallest_divisor(v.shape[axis]) > 1) axes.push_back(static_cast<int>(axis));
    }
    // The remainder, not std::uniform_int_distribution: its result differs between standard libraries.
    const int axis = axes.empty() ? 0 : axes[random() % axes.size()];
    const int shards = axes.empty() ? 1 : smallest_divisor(v.shape[axis]);
    configs[i] = cut(v, axis, shards, [&](int64_t) { return collective_for(v, group++); });
  }
  return configs;
}

}  // namespace entrain::strategy
