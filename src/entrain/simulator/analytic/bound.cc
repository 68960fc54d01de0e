#include "entrain/simulator/analytic/bound.h"

#include <algorithm>

#include "entrain/plan/link_bound.h"

namespace entrain::simulator {

Bound lower_bound(const graph::Graph& graph, const cluster::Cluster& cluster) {
  double slowest = 1;
  for (const auto& host : cluster.hosts) {
    if (!host.server_only()) slowest = std::min(slowest, host.speed);
  }
  Bound bound;
  bound.compute = graph.compute_s() / slowest;
  bound.links = plan::best_link_bound(graph, cluster);
  if (bound.links > 0 && !graph.variables.empty()) {
    for (const auto& v : graph.variables) {
      if (v.ready_order == 0) bound.links += v.backward_s / slowest;
    }
    bound.links += graph.variables.back().forward_s / slowest;
  }
  bound.seconds = std::max(bound.compute, bound.links);
  return bound;
}

}  // namespace entrain::simulator
