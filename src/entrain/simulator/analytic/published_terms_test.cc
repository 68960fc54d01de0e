#include "entrain/simulator/analytic/published_terms.h"

#include <gmock/gmock.h>

#include "entrain/base/error.h"

namespace entrain::simulator {
namespace {

using strategy::AllGather;
using strategy::AllReduce;
using strategy::ParameterServer;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

// Three hosts: a (1 Gbit/s, 1 rank), b (1 Gbit/s, 2 ranks), c (4 Gbit/s, serves only).
cluster::Cluster tiny_cluster() {
  cluster::Cluster c;
  c.hosts.resize(3);
  c.hosts[0].address = "10.0.0.1";
  c.hosts[1].address = "10.0.0.2";
  c.hosts[1].workers = 2;
  c.hosts[2].address = "10.0.0.3";
  c.hosts[2].bandwidth_gbit = 4;
  c.hosts[2].workers = 0;
  return c;
}

// w: 10 x 5 floats = 1600 bits. e: 100 rows of 3 floats, 4 touched: 4 (96 + 64) = 640 bits.
graph::Graph tiny_graph() {
  graph::Graph g;
  g.variables.resize(2);
  g.variables[0].name = "w";
  g.variables[0].shape = {10, 5};
  g.variables[1].name = "e";
  g.variables[1].shape = {100, 3};
  g.variables[1].sparse = true;
  g.variables[1].rows_per_step = 4;
  return g;
}

AllReduce in_group(int group) { return {strategy::Topology::kAuto, strategy::Compressor::kNone, group, {}}; }

strategy::Strategy make(strategy::Synchronizer w, strategy::Synchronizer e) {
  strategy::Strategy s;
  s.variables = {{"w", std::nullopt, {{std::move(w), std::nullopt}}},
                 {"e", std::nullopt, {{std::move(e), std::nullopt}}}};
  return s;
}

TEST(PublishedTerms, ServerSendsToHostsAndAnswersRanks) {
  const PublishedTerms terms(tiny_graph(), tiny_cluster());
  // w at c: send 1600 to each of 2 hosts at 1 Gbit/s; receive 1 + 2 ranks. e at a: b's two ranks push 640
  // each and pull 640 each.
  const auto f = terms.features(make(ParameterServer{"10.0.0.3", false}, ParameterServer{"10.0.0.1", false}));
  const double w = (2 + 3) * 1600e-9, e = (2 + 2) * 640e-9;
  EXPECT_NEAR(f[0], w, 1e-15);
  EXPECT_EQ(f[1], 2 + 3);  // overhead of the busiest server
  EXPECT_EQ(f[2], 4);      // latency: 2 max ranks of a host
  EXPECT_NEAR(f[3], w + e, 1e-15);
  EXPECT_EQ(f[4], 10);
  EXPECT_EQ(f[5], 8);
  for (int i = 6; i < kPublishedFeatures; ++i) EXPECT_EQ(f[i], 0);
}

TEST(PublishedTerms, LocalReplicationReceivesOnceAHost) {
  const PublishedTerms terms(tiny_graph(), tiny_cluster());
  const auto f = terms.features(make(ParameterServer{"10.0.0.3", true}, AllGather{7}));
  EXPECT_NEAR(f[0], (2 + 2) * 1600e-9, 1e-15);
  EXPECT_EQ(f[1], 4);
  EXPECT_NEAR(f[6], 2 * 640e-9, 1e-15);  // all-gather: each rank receives the two others' rows
}

TEST(PublishedTerms, AGroupPaysOverheadOnceAndServersAreNoWorkers) {
  graph::Graph g = tiny_graph();
  g.variables[1].sparse = false;  // 300 floats = 9600 bits
  const PublishedTerms terms(g, tiny_cluster());
  const auto together = terms.features(make(in_group(3), in_group(3)));
  EXPECT_NEAR(together[6], 11200e-9, 1e-15);  // over 1 Gbit/s: a and b; c only serves
  EXPECT_EQ(together[7], 1);
  EXPECT_EQ(together[10], 1);
  const auto apart = terms.features(make(in_group(3), in_group(90000)));
  EXPECT_NEAR(apart[6], 9600e-9, 1e-15);
  EXPECT_NEAR(apart[9], 11200e-9, 1e-15);
  EXPECT_EQ(apart[10], 2);
}

TEST(PublishedTerms, GroupsAreKeptApartWhateverTheirNumbers) {
  graph::Graph g = tiny_graph();
  g.variables[1].sparse = false;
  const PublishedTerms terms(g, tiny_cluster());
  const auto together = terms.features(make(in_group(0), in_group(0)));
  EXPECT_NEAR(together[6], 11200e-9, 1e-15);
  EXPECT_EQ(together[10], 1);
  for (const int other : {1, 1 << 10, 1 << 20}) {  // powers of two meet group 0 in a table
    const auto apart = terms.features(make(in_group(0), in_group(other)));
    EXPECT_NEAR(apart[6], 9600e-9, 1e-15) << other;
    EXPECT_NEAR(apart[9], 11200e-9, 1e-15) << other;
    EXPECT_EQ(apart[10], 2) << other;
  }
}

// Two factors of 10 x 10 and 5 x 10 floats.
TEST(PublishedTerms, LowRankSendsItsFactors) {
  const PublishedTerms terms(tiny_graph(), tiny_cluster());
  AllReduce power = in_group(0);
  power.compressor = strategy::Compressor::kPowerSgd;
  EXPECT_NEAR(terms.features(make(power, AllGather{1}))[9] - 2 * 640e-9, (10 + 5) * 10 * 32e-9, 1e-15);
}

TEST(PublishedTerms, OfAPartAreThoseOfItAlone) {
  const auto g = tiny_graph();
  const auto c = tiny_cluster();
  const PublishedTerms terms(g, c);
  std::vector<PartTerms> parts;
  PartWalk(g, c).each(make(in_group(0), ParameterServer{"10.0.0.3", false}),
                      [&](const PartView& view) { parts.push_back(terms.part(view)); });
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_FALSE(parts[0].server);
  EXPECT_NEAR(parts[0].terms.transmission, 1600e-9, 1e-15);
  EXPECT_EQ(parts[0].terms.overhead, 1);
  EXPECT_EQ(parts[0].terms.latency, 2);
  EXPECT_TRUE(parts[1].server);
  EXPECT_EQ(parts[1].terms.overhead, 5);
  EXPECT_EQ(parts[1].terms.latency, 4);
}

TEST(PublishedTerms, ASlowDirectionOfALinkBindsBoth) {
  cluster::Cluster c = tiny_cluster();
  const auto group_seconds = [&] {
    return PublishedTerms(tiny_graph(), c).features(make(in_group(0), ParameterServer{"10.0.0.3", false}))[6];
  };
  c.links = {{0, 1, 0.5, 0}};  // there as here
  EXPECT_NEAR(group_seconds(), 2 * 1600e-9, 1e-15);
  c.links = {{0, 1, 0.5, 0}, {1, 0, 1, 0}};
  EXPECT_NEAR(group_seconds(), 2 * 1600e-9, 1e-15);
}

TEST(PublishedTerms, SumAndMaxOverServersAndGroups) {
  const auto g = tiny_graph();
  const auto c = tiny_cluster();
  const std::vector<strategy::Strategy> strategies = {
      make(AllReduce{}, ParameterServer{"10.0.0.1:CPU:0", false})};
  const double w = 1600e-9, e = 4 * 640e-9;
  using Total = PublishedSimulator::Total;
  EXPECT_THAT(PublishedSimulator(g, c, Total::kSum).score(strategies), ElementsAre(DoubleNear(w + e, 1e-15)));
  EXPECT_THAT(PublishedSimulator(g, c, Total::kMax).score(strategies), ElementsAre(DoubleNear(e, 1e-15)));
  const PublishedSimulator weighted(g, c, Total::kSum, {.overhead = 1, .latency = 10});
  EXPECT_THAT(weighted.score(strategies), ElementsAre(DoubleNear(w + e + (1 + 5) + 10 * (2 + 4), 1e-12)));
}

TEST(PublishedTerms, ShardsAddUpAndOrderOfVariablesDoesNotMatter) {
  const PublishedTerms terms(tiny_graph(), tiny_cluster());
  strategy::Strategy s = make(AllReduce{}, AllGather{1});
  s.variables[0].partition = strategy::Partition{0, 3};  // 4 + 3 + 3 rows
  s.variables[0].parts = {{in_group(0), {}}, {in_group(2), {}}, {ParameterServer{"10.0.0.1", true}, {}}};
  std::swap(s.variables[0], s.variables[1]);
  const auto f = terms.features(s);
  EXPECT_NEAR(f[0], 2 * 0.3 * 1600e-9, 1e-15);           // 1 remote host, there and back
  EXPECT_NEAR(f[9], 0.7 * 1600e-9 + 2 * 640e-9, 1e-15);  // groups: both shards and the all-gather
  EXPECT_NEAR(f[6], 2 * 640e-9, 1e-15);
}

TEST(PublishedTerms, UnknownNamesAreNamed) {
  const PublishedTerms terms(tiny_graph(), tiny_cluster());
  try {
    terms.features(make(ParameterServer{"10.0.0.9"}, AllGather{}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("10.0.0.9"));
  }
  EXPECT_EQ(terms.features(make(AllReduce{}, AllGather{1}))[10], 2);  // the thread's buffers are as new
}

}  // namespace
}  // namespace entrain::simulator
