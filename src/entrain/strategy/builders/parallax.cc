// Parallax: sparse variables on load-balanced parameter servers with a host-local proxy, dense ones
// all-reduced.
#include "entrain/strategy/builders/builders.h"
#include "entrain/strategy/builders/parts.h"

namespace entrain::strategy {

Configs build_parallax(const graph::Graph& graph, const cluster::Cluster& cluster, uint64_t) {
  Servers servers(cluster);
  const std::vector<int> groups = merge_groups(graph, kOverlapRule);
  Configs configs;
  for (size_t i = 0; i < graph.variables.size(); ++i) {
    const graph::Variable& v = graph.variables[i];
    configs.push_back(cut(v, 0, 1, [&](int64_t bytes) -> Synchronizer {
      if (!v.sparse) return collective_for(v, groups[i]);
      ParameterServer ps = servers.place(bytes);
      ps.local_replication = true;
      return ps;
    }));
  }
  return configs;
}

}  // namespace entrain::strategy
