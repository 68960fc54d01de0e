// Which schedule a synchronizer's topology means on a cluster.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/collective/schedule.h"
#include "entrain/strategy/strategy.h"

namespace entrain::plan {

// Makes each schedule once: hundreds of messages share a few.
class Topologies {
 public:
  explicit Topologies(const cluster::Cluster& cluster);

  using Shared = std::shared_ptr<const collective::Schedule>;
  Shared all_reduce(const strategy::AllReduce& choice, int64_t bytes);
  Shared parameter_server(const strategy::ParameterServer& choice);

 private:
  const cluster::Cluster& cluster_;
  int world_;
  std::vector<int> workers_;
  std::vector<std::vector<int>> groups_;  // the workers of each host that has any
  std::map<std::string, Shared> made_;
};

}  // namespace entrain::plan
