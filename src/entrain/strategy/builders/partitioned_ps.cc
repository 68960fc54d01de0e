// AutoDist's PartitionedPS: axis 0 cut into the smallest divisor of its size (equal shards), each shard on
// the server with the fewest bytes so far.
#include "entrain/strategy/builders/builders.h"
#include "entrain/strategy/builders/parts.h"

namespace entrain::strategy {

Configs build_partitioned_ps(const graph::Graph& graph, const cluster::Cluster& cluster, uint64_t) {
  Servers servers(cluster);
  Configs configs;
  for (const graph::Variable& v : graph.variables) {
    configs.push_back(
        cut(v, 0, smallest_divisor(rows(v)), [&](int64_t bytes) { return servers.place(bytes); }));
  }
  return configs;
}

}  // namespace entrain::strategy
