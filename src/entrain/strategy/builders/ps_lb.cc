// Whole variables, in data-flow order, each on the server with the fewest bytes so far.
#include "entrain/strategy/builders/builders.h"
#include "entrain/strategy/builders/parts.h"

namespace entrain::strategy {

Configs build_ps_lb(const graph::Graph& graph, const cluster::Cluster& cluster, uint64_t) {
  Servers servers(cluster);
  Configs configs;
  for (const graph::Variable& v : graph.variables) {
    configs.push_back(cut(v, 0, 1, [&](int64_t bytes) { return servers.place(bytes); }));
  }
  return configs;
}

}  // namespace entrain::strategy
