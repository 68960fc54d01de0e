// Every variable on one server: the host with the fastest link. Hosts without workers win ties, for a
// worker's own traffic would share their link; then the first listed wins. Small variables travel together: a
// message costs more than their bytes.
#include <algorithm>

#include "entrain/strategy/builders/builders.h"
#include "entrain/strategy/builders/parts.h"

namespace entrain::strategy {

Configs build_ps(const graph::Graph& graph, const cluster::Cluster& cluster, uint64_t) {
  const cluster::Host* server = &cluster.hosts.front();
  for (const cluster::Host& host : cluster.hosts) {
    const bool faster = host.bandwidth_gbit > server->bandwidth_gbit;
    const bool tie = host.bandwidth_gbit == server->bandwidth_gbit;
    if (faster || (tie && host.server_only() && !server->server_only())) server = &host;
  }
  ParameterServer ps{server->address, has_shared_hosts(cluster), true, 0};
  const std::vector<int> groups = merge_groups(graph, kServedRule);
  Configs configs;
  for (size_t i = 0; i < graph.variables.size(); ++i) {
    const bool alone = std::count(groups.begin(), groups.end(), groups[i]) == 1;
    ps.group = alone ? std::nullopt : std::optional(groups[i]);
    configs.push_back(cut(graph.variables[i], 0, 1, [&](int64_t) { return ps; }));
  }
  return configs;
}

}  // namespace entrain::strategy
