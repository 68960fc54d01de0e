#include "entrain/plan/topology.h"

#include <gtest/gtest.h>

#include "entrain/collective/algorithms.h"
#include "entrain/collective/condensed.h"

namespace entrain::plan {
namespace {

using strategy::Topology;

std::string chosen(const std::string& cluster, int64_t bytes, Topology topology = Topology::kAuto) {
  const auto d = cluster::parse(cluster);
  Topologies topologies(d);
  return topologies.all_reduce({.topology = topology, .ring_order = {}}, topologies.all_workers(), bytes)
      ->name;
}

// Hosts with several ranks sum within first; else small messages take two latencies, large ones even links.
TEST(Topologies, LeftOpenFollowHostsAndBytes) {
  EXPECT_EQ(chosen("lab:2x1gbit/ranks=2", 1 << 20), "hierarchical");
  EXPECT_EQ(chosen("lab:2x1gbit/ranks=2", 8), "hierarchical");
  for (const char* text : {"lab:2x1gbit", "lab:3x1gbit", "lab:1x1gbit/ranks=4", "lab:1x1gbit"}) {
    EXPECT_EQ(chosen(text, 64 << 10), "direct") << text;
    EXPECT_EQ(chosen(text, (64 << 10) + 1), "ring") << text;
  }
}

TEST(Topologies, ThatAreAskedForAreTaken) {
  const char* text = "lab:4x1gbit";
  EXPECT_EQ(chosen(text, 8, Topology::kRing), "ring");
  EXPECT_EQ(chosen(text, 8, Topology::kHalvingDoubling), "halving-doubling");
  EXPECT_EQ(chosen(text, 8, Topology::kTree), "tree");
  EXPECT_EQ(chosen(text, 8, Topology::kHierarchical), "hierarchical");
  EXPECT_EQ(chosen(text, 1 << 20, Topology::kReduceScatter), "direct");
}

TEST(Topologies, RingOrderListsHosts) {
  const auto d = cluster::parse("lab:3x1gbit/ranks=2");
  Topologies topologies(d);
  const auto ring = topologies.all_reduce({.topology = Topology::kRing, .ring_order = {2, 0, 1}},
                                          topologies.all_workers(), 8);
  EXPECT_EQ(ring->transfers, collective::ring({4, 5, 0, 1, 2, 3}, 6).transfers);
  const auto listed =
      topologies.all_reduce({.topology = Topology::kRing, .ring_order = {}}, topologies.all_workers(), 8);
  EXPECT_EQ(listed->transfers, collective::ring({0, 1, 2, 3, 4, 5}, 6).transfers);
}

// Four hosts of two ranks: a hierarchy has a ring of hosts, the others one of ranks.
TEST(Topologies, OfMoreRanksOrHostsThanAreExactAreCondensed) {
  const auto d = cluster::parse("lab:4x1gbit/ranks=2");
  const auto made = [&](Topology topology, int most_exact) {
    Topologies topologies(d, most_exact);
    return *topologies.all_reduce({.topology = topology, .ring_order = {}}, topologies.all_workers(), 8);
  };
  const std::vector<int> ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  Topologies exact(d);
  const auto& hosts = exact.all_workers().by_host;
  EXPECT_EQ(made(Topology::kRing, 8).name, "ring");
  EXPECT_EQ(made(Topology::kRing, 7).transfers, collective::condensed_ring(ranks, 8).transfers);
  EXPECT_EQ(made(Topology::kReduceScatter, 8).name, "direct");
  EXPECT_EQ(made(Topology::kReduceScatter, 7).transfers, collective::condensed_direct(ranks, 8).transfers);
  EXPECT_EQ(made(Topology::kHalvingDoubling, 8).name, "halving-doubling");
  EXPECT_EQ(made(Topology::kHalvingDoubling, 7).times,
            collective::condensed_halving_doubling(ranks, 8).times);
  EXPECT_EQ(made(Topology::kTree, 1).name, "tree") << "has few transfers as it is";
  EXPECT_EQ(made(Topology::kHierarchical, 4).name, "hierarchical");
  EXPECT_EQ(made(Topology::kHierarchical, 3).transfers,
            collective::condensed_hierarchical(hosts, 8).transfers);
}

TEST(Topologies, SumAtTheServersRank) {
  const auto d = cluster::parse("lab:2x1gbit/ranks=2+1x1gbit/server");
  Topologies topologies(d);
  const auto apart =
      topologies.parameter_server({.destination = d.hosts[2].address}, topologies.all_workers());
  EXPECT_EQ(apart->transfers, collective::rooted({0, 1, 2, 3}, 4, 5).transfers);
  const auto among =
      topologies.parameter_server({.destination = d.hosts[1].address}, topologies.all_workers());
  EXPECT_EQ(among->transfers, collective::rooted({0, 1, 2, 3}, 2, 5).transfers);
  const auto proxies = topologies.parameter_server(
      {.destination = d.hosts[1].address, .local_replication = true}, topologies.all_workers());
  EXPECT_EQ(proxies->transfers, collective::rooted_by_group({{0, 1}, {2, 3}}, 2, 5).transfers);
}

}  // namespace
}  // namespace entrain::plan
