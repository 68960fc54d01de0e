// Measures a cluster through the transport that training uses.
#pragma once

#include "entrain/cluster/cluster.h"
#include "entrain/job/context.h"

namespace entrain::trials {

struct ProbeOptions {
  size_t bytes = 16 << 20;  // per direction of a pair; more is steadier and slower
  int pings = 50;
  bool progress = true;
};

// Collective. Returns, on rank 0, the cluster with a link for every ordered pair of hosts
// (bandwidth, one-way latency), each host's bandwidth as the best of its links, and its compute
// speed relative to the fastest. One pair at a time, so that pairs do not share links.
cluster::Cluster probe(job::Context& context, const ProbeOptions& options);

}  // namespace entrain::trials
