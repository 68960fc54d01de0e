// Which schedule a synchronizer's topology means on a cluster, among some of its workers.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/collective/schedule.h"
#include "entrain/strategy/strategy.h"

namespace entrain::plan {

// Ranks that train the same variables, and so sum their gradients.
struct Holders {
  int number = 0;                                 // 0: all workers
  std::shared_ptr<const std::vector<int>> ranks;  // ascending
  std::vector<std::vector<int>> by_host;          // of each host that has any
};

// Makes each schedule once: hundreds of messages share a few. Thread-safe.
class Topologies {
 public:
  // Collectives of more than `most_exact` ranks, hierarchical ones of more hosts, are condensed
  // (collective/condensed.h).
  explicit Topologies(const cluster::Cluster& cluster, int most_exact = kAllExact);
  static constexpr int kAllExact = 1 << 30;

  // `ranks`: workers, ascending. Lives as long as this.
  const Holders& holders(const std::vector<int>& ranks);
  const Holders& all_workers() const { return *all_; }

  using Shared = std::shared_ptr<const collective::Schedule>;
  using Topology = strategy::Topology;
  Shared all_reduce(const strategy::AllReduce& choice, const Holders& holders, int64_t bytes);
  Shared parameter_server(const strategy::ParameterServer& choice, const Holders& holders);

 private:
  const cluster::Cluster& cluster_;
  int world_;
  int most_exact_;

  std::mutex mutex_;
  std::map<std::vector<int>, Holders> holders_;  // by ranks                  guarded by mutex_
  const Holders* all_;
  std::map<std::tuple<Topology, int, std::vector<int>>, Shared> all_reduces_;  // by ring order; mutex_
  std::map<std::tuple<int, bool, int>, Shared> servers_;  // by host, proxies, holders; mutex_
};

}  // namespace entrain::plan
