#include "entrain/plan/topology.h"

#include "entrain/collective/algorithms.h"

namespace entrain::plan {

Topologies::Topologies(const cluster::Cluster& cluster)
    : cluster_(cluster),
      world_(cluster.world()),
      workers_(cluster.worker_ranks()),
      servers_(cluster.hosts.size()) {
  std::vector<std::vector<int>> by_host(cluster.hosts.size());
  for (const int rank : workers_) by_host[cluster.host_of(rank)].push_back(rank);
  for (auto& host : by_host) {
    if (!host.empty()) groups_.push_back(std::move(host));
  }
}

Topologies::Shared Topologies::all_reduce(const strategy::AllReduce& choice, int64_t bytes) {
  Topology topology = choice.topology;
  if (topology == Topology::kAuto) {
    // Two latencies matter more than even links below the size a link carries in about one.
    constexpr int64_t kSmall = 64 << 10;
    const bool shared_hosts = groups_.size() > 1 && groups_.size() < workers_.size();
    topology = shared_hosts      ? Topology::kHierarchical
               : bytes <= kSmall ? Topology::kReduceScatter
                                 : Topology::kRing;
  }
  const std::lock_guard lock(mutex_);
  Shared& schedule = all_reduces_[{topology, choice.ring_order}];
  if (schedule) return schedule;

  std::vector<int> order;
  for (const int host : choice.ring_order) {
    for (const int rank : workers_) {
      if (cluster_.host_of(rank) == host) order.push_back(rank);
    }
  }
  if (order.empty()) order = workers_;
  const auto make = [&]() -> collective::Schedule {
    switch (topology) {
      case Topology::kHalvingDoubling:
        return collective::halving_doubling(order, world_);
      case Topology::kTree:
        return collective::tree(order, world_);
      case Topology::kHierarchical:
        return collective::hierarchical(groups_, world_);
      case Topology::kReduceScatter:
        return collective::direct(order, world_);
      default:
        return collective::ring(order, world_);
    }
  };
  return schedule = std::make_shared<const collective::Schedule>(make());
}

Topologies::Shared Topologies::parameter_server(const strategy::ParameterServer& choice) {
  const int host = cluster_.find(choice.destination);
  const std::lock_guard lock(mutex_);
  Shared& schedule = servers_[host][choice.local_replication ? 1 : 0];
  if (schedule) return schedule;
  const int root = cluster_.first_rank(host);
  return schedule = std::make_shared<const collective::Schedule>(
             choice.local_replication ? collective::rooted_by_group(groups_, root, world_)
                                      : collective::rooted(workers_, root, world_));
}

}  // namespace entrain::plan
