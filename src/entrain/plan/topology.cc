#include "entrain/plan/topology.h"

#include "entrain/collective/algorithms.h"
#include "entrain/collective/condensed.h"

namespace entrain::plan {

Topologies::Topologies(const cluster::Cluster& cluster, int most_exact)
    : cluster_(cluster),
      world_(cluster.world()),
      most_exact_(most_exact),
      all_(&holders(cluster.worker_ranks())) {}

const Holders& Topologies::holders(const std::vector<int>& ranks) {
  const std::lock_guard lock(mutex_);
  const auto [found, inserted] = holders_.try_emplace(ranks);
  if (!inserted) return found->second;
  Holders& made = found->second;
  made.number = static_cast<int>(holders_.size()) - 1;
  made.ranks = std::make_shared<const std::vector<int>>(ranks);
  std::vector<std::vector<int>> by_host(cluster_.hosts.size());
  for (const int rank : ranks) by_host[cluster_.host_of(rank)].push_back(rank);
  for (auto& host : by_host) {
    if (!host.empty()) made.by_host.push_back(std::move(host));
  }
  return made;
}

Topologies::Shared Topologies::all_reduce(const strategy::AllReduce& choice, const Holders& holders,
                                          int64_t bytes) {
  Topology topology = choice.topology;
  if (topology == Topology::kAuto) {
    // Two latencies matter more than even links below the size a link carries in about one.
    constexpr int64_t kSmall = 64 << 10;
    const bool shared_hosts = holders.by_host.size() > 1 && holders.by_host.size() < holders.ranks->size();
    topology = shared_hosts      ? Topology::kHierarchical
               : bytes <= kSmall ? Topology::kReduceScatter
                                 : Topology::kRing;
  }
  const std::lock_guard lock(mutex_);
  Shared& schedule = all_reduces_[{topology, holders.number, choice.ring_order}];
  if (schedule) return schedule;

  std::vector<int> order;
  for (const int host : choice.ring_order) {
    for (const int rank : *holders.ranks) {
      if (cluster_.host_of(rank) == host) order.push_back(rank);
    }
  }
  if (order.empty()) order = *holders.ranks;
  const bool ring_of_hosts = topology == Topology::kHierarchical;
  const size_t around = ring_of_hosts ? holders.by_host.size() : order.size();
  const auto condensed = [&]() -> collective::Schedule {
    switch (topology) {
      case Topology::kHalvingDoubling:
        return collective::condensed_halving_doubling(order, world_);
      case Topology::kTree:
        return collective::tree(order, world_);
      case Topology::kHierarchical:
        return collective::condensed_hierarchical(holders.by_host, world_);
      case Topology::kReduceScatter:
        return collective::condensed_direct(order, world_);
      default:
        return collective::condensed_ring(order, world_);
    }
  };
  const auto make = [&]() -> collective::Schedule {
    if (around > static_cast<size_t>(most_exact_)) return condensed();
    switch (topology) {
      case Topology::kHalvingDoubling:
        return collective::halving_doubling(order, world_);
      case Topology::kTree:
        return collective::tree(order, world_);
      case Topology::kHierarchical:
        return collective::hierarchical(holders.by_host, world_);
      case Topology::kReduceScatter:
        return collective::direct(order, world_);
      default:
        return collective::ring(order, world_);
    }
  };
  return schedule = std::make_shared<const collective::Schedule>(make());
}

Topologies::Shared Topologies::parameter_server(const strategy::ParameterServer& choice,
                                                const Holders& holders) {
  const int host = cluster_.find(choice.destination);
  const std::lock_guard lock(mutex_);
  Shared& schedule = servers_[{host, choice.local_replication, holders.number}];
  if (schedule) return schedule;
  const int root = cluster_.first_rank(host);
  return schedule = std::make_shared<const collective::Schedule>(
             choice.local_replication ? collective::rooted_by_group(holders.by_host, root, world_)
                                      : collective::rooted(*holders.ranks, root, world_));
}

}  // namespace entrain::plan
