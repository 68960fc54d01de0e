// Does a strategy fit this model and this cluster?
#pragma once

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/strategy/strategy.h"

namespace entrain::strategy {

// Throws InputError naming the variable, the field, its value and what is allowed. A strategy that
// passes can be run: every variable of G once, shards that exist, hosts that exist, merge groups that
// are one message (one kind, dtype, topology, compressor and ring order), sparse gradients never densified.
void validate(const Strategy& strategy, const graph::Graph& graph, const cluster::Cluster& cluster);

}  // namespace entrain::strategy
