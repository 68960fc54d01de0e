// What no strategy can beat.
#pragma once

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"

namespace entrain::simulator {

struct Bound {
  double compute = 0;  // forward and backward of the slowest worker
  double links = 0;    // before the first gradient nothing can be sent, after the last byte one layer is left
  double seconds = 0;  // the larger
};

// links = backward up to the first gradient + plan::best_link_bound() + forward of the last variable.
// Nominal rates, no headers, no latency, free updates: a bound, not an estimate.
Bound lower_bound(const graph::Graph& graph, const cluster::Cluster& cluster);

}  // namespace entrain::simulator
