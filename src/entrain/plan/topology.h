// Which schedule a synchronizer's topology means on a cluster.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/collective/schedule.h"
#include "entrain/strategy/strategy.h"

namespace entrain::plan {

// Makes each schedule once: hundreds of messages share a few. Thread-safe.
class Topologies {
 public:
  explicit Topologies(const cluster::Cluster& cluster);

  using Shared = std::shared_ptr<const collective::Schedule>;
  using Topology = strategy::Topology;
  Shared all_reduce(const strategy::AllReduce& choice, int64_t bytes);
  Shared parameter_server(const strategy::ParameterServer& choice);

 private:
  const cluster::Cluster& cluster_;
  int world_;
  std::vector<int> workers_;
  std::vector<std::vector<int>> groups_;  // the workers of each host that has any

  std::mutex mutex_;
  std::map<std::pair<Topology, std::vector<int>>, Shared> all_reduces_;  // by ring order  guarded by mutex_
  std::vector<std::array<Shared, 2>> servers_;  // by host, without and with proxies       guarded by mutex_
};

}  // namespace entrain::plan
