// Hosts of an emulated cluster that are said to be slow: how much longer their passes are made to take
// (pipeline/run/worker.h). Hosts of a real cluster are what they are.
#pragma once

#include <algorithm>

#include "entrain/cluster/cluster.h"

namespace entrain::parallel {

// Of this rank's passes, beside what they take: 1 / speed - 1.
inline double slowdown_of(const cluster::Cluster& cluster, int rank) {
  if (cluster.kind != cluster::Kind::kLab) return 0;
  return std::max(0.0, 1 / cluster.hosts[static_cast<size_t>(cluster.host_of(rank))].speed - 1);
}

// Whether it does so for any rank that trains.
inline bool paces_passes(const cluster::Cluster& cluster) {
  const auto ranks = cluster.worker_ranks();
  return std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return slowdown_of(cluster, rank) > 0; });
}

}  // namespace entrain::parallel
