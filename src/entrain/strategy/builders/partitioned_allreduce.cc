// AutoDist's PartitionedAR: axis 0 cut into the smallest divisor of its size, every shard all-reduced as a
// message of its own. Groups count up in ready order. Sparse variables are gathered whole: cutting rows saves
// nothing there.
#include "entrain/strategy/builders/builders.h"
#include "entrain/strategy/builders/parts.h"

namespace entrain::strategy {

Configs build_partitioned_allreduce(const graph::Graph& graph, const cluster::Cluster&, uint64_t) {
  Configs configs(graph.variables.size());
  int group = 0;
  for (const int i : by_readiness(graph)) {
    const graph::Variable& v = graph.variables[i];
    const int shards = v.sparse ? 1 : smallest_divisor(rows(v));
    configs[i] = cut(v, 0, shards, [&](int64_t) { return collective_for(v, group++); });
  }
  return configs;
}

}  // namespace entrain::strategy
