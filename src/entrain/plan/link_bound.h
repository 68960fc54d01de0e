// The least time the links allow for one step: payload bytes over nominal rates, no
// latency, no headers, everything else for free.
#pragma once

#include <vector>

#include "entrain/plan/plan.h"

namespace entrain::plan {

// Payload that leaves and enters each host in a step. Traffic between ranks of one host is free.
struct LinkBytes {
  std::vector<double> sent, received;
};
LinkBytes link_bytes(const Plan& plan, const graph::Graph& graph, const cluster::Cluster& cluster);

struct LinkBound {
  double seconds = 0;
  int host = 0;         // whose link binds
  bool sending = true;  // its direction
};

// For a plan: the busiest direction of a host's link.
//   max over hosts h, directions of bytes(h, direction) * 8 / bandwidth(h)
LinkBound link_bound(const Plan& plan, const graph::Graph& graph, const cluster::Cluster& cluster);

// No plan can do better. Dense gradients of M bytes on w worker hosts: each host must send at
// least M (its own part, or the result where it sums), and all together at least 2(w-1)M (each
// byte is summed w-1 times and handed out w-1 times):
//   T* = max( M / least b of a worker host,  2(w-1)M / sum of all b )
// A worker host can carry (w-1)M of the sum at most and a server-only one wM, but one that carries as much
// and M from each other worker host make 2(w-1)M already.
// Sparse rows: each worker host must receive every other rank's rows.
double best_link_bound(const graph::Graph& graph, const cluster::Cluster& cluster);

// No plan whose compressors leave as many bytes as this one's do can do better. The same as above where
// nothing is compressed; top-k's elements count as sparse rows.
double best_link_bound(const Plan& plan, const graph::Graph& graph, const cluster::Cluster& cluster);

// Bytes that each rank sends in a step (all its messages, also those within its host).
std::vector<int64_t> bytes_sent(const Plan& plan, const graph::Graph& graph);

}  // namespace entrain::plan
