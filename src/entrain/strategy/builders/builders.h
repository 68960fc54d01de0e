// The hand-made strategies, one file each. registry.cc names them and completes the Strategy.
// Each is a pure function: the same arguments give the same result.
#pragma once

#include <cstdint>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/strategy/strategy.h"

namespace entrain::strategy {

using Configs = std::vector<VariableConfig>;
using BuildFunction = Configs (*)(const graph::Graph&, const cluster::Cluster&, uint64_t seed);

Configs build_ps(const graph::Graph&, const cluster::Cluster&, uint64_t seed);
Configs build_ps_lb(const graph::Graph&, const cluster::Cluster&, uint64_t seed);
Configs build_partitioned_ps(const graph::Graph&, const cluster::Cluster&, uint64_t seed);
Configs build_uneven_partitioned_ps(const graph::Graph&, const cluster::Cluster&, uint64_t seed);
Configs build_allreduce(const graph::Graph&, const cluster::Cluster&, uint64_t seed);
Configs build_partitioned_allreduce(const graph::Graph&, const cluster::Cluster&, uint64_t seed);
Configs build_random_axis_allreduce(const graph::Graph&, const cluster::Cluster&, uint64_t seed);
Configs build_parallax(const graph::Graph&, const cluster::Cluster&, uint64_t seed);
Configs build_byteps(const graph::Graph&, const cluster::Cluster&, uint64_t seed);
Configs build_ddp(const graph::Graph&, const cluster::Cluster&, uint64_t seed);

}  // namespace entrain::strategy
