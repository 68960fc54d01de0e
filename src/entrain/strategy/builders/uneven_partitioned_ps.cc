// AutoDist's UnevenPartitionedPS: as partitioned_ps, but into the smallest number that does not divide the
// axis, so that the shards differ by one row.
#include "entrain/strategy/builders/builders.h"
#include "entrain/strategy/builders/parts.h"

namespace entrain::strategy {

Configs build_uneven_partitioned_ps(const graph::Graph& graph, const cluster::Cluster& cluster, uint64_t) {
  Servers servers(cluster);
  Configs configs;
  for (const graph::Variable& v : graph.variables) {
    configs.push_back(
        cut(v, 0, smallest_non_divisor(rows(v)), [&](int64_t bytes) { return servers.place(bytes); }));
  }
  return configs;
}

}  // namespace entrain::strategy
