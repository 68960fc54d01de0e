#include "entrain/simulator/boosted/features.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/simulator/boosted/tally.h"
#include "entrain/simulator/testing.h"

namespace entrain::simulator {
namespace {

double feature(const std::vector<float>& row, const std::string& name) {
  const auto& names = StrategyFeatures::schema().features;
  const auto found = std::find(names.begin(), names.end(), name);
  EXPECT_NE(found, names.end()) << name;
  return row[static_cast<size_t>(found - names.begin())];
}

TEST(Features, NamesAreUniqueAndTheEventSimulationIsAmongThem) {
  const auto& names = StrategyFeatures::schema().features;
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(names[StrategyFeatures::event_feature()], "event_log_seconds");
}

TEST(Features, OfAllReduceInOneGroup) {
  const auto g = testing::chain_graph(3);
  const auto c = cluster::parse("lab:4x1gbit");
  strategy::Strategy s;
  for (const auto& v : g.variables) {
    strategy::Synchronizer synchronizer = strategy::AllReduce{};
    if (v.sparse) synchronizer = strategy::AllGather{9};
    s.variables.push_back({v.name, std::nullopt, {{synchronizer, std::nullopt}}});
  }
  const StrategyFeatures features(g, c, {});
  const auto row = features.compute(std::span(&s, 1));
  EXPECT_EQ(feature(row, "parts"), 1);
  EXPECT_EQ(feature(row, "messages"), 0.5);  // of 4 variables: one all-reduce, one all-gather
  EXPECT_EQ(feature(row, "share_server"), 0);
  EXPECT_NEAR(feature(row, "share_all_reduce") + feature(row, "share_all_gather"), 1, 1e-6);
  EXPECT_NEAR(feature(row, "send_over_receive"), 0, 1e-6);
  EXPECT_NEAR(feature(row, "link_spread"), 1, 1e-6);
}

// Twice the model on links twice as fast is the same problem.
TEST(Features, DoNotDependOnTheUnitOfTime) {
  auto slow = testing::chain_graph(3), fast = testing::chain_graph(3);
  auto slow_links = cluster::parse("lab:2x1gbit+2x4gbit"), fast_links = slow_links;
  for (auto& v : fast.variables) v.forward_s /= 2, v.backward_s /= 2;
  for (auto& h : fast_links.hosts) h.bandwidth_gbit *= 2;
  std::mt19937_64 rng(3);
  const auto s = testing::random_strategy(slow, slow_links, rng);
  Calibration free;  // nothing but links and compute
  free.latency_s = free.message_s = free.burst_s = 0;
  free.engine_bytes_per_s = free.reduce_bytes_per_s = free.update_bytes_per_s = 1e15;
  const auto a = StrategyFeatures(slow, slow_links, free).compute(std::span(&s, 1));
  const auto b = StrategyFeatures(fast, fast_links, free).compute(std::span(&s, 1));
  const auto& names = StrategyFeatures::schema().features;
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 0.02 + 0.02 * std::abs(a[i])) << names[i];
}

TEST(Tally, ServersCarryWhatTheyServe) {
  const auto g = testing::chain_graph(2);
  const auto c = cluster::parse("lab:2x1gbit+1x10gbit/server");
  strategy::Strategy s;
  for (const auto& v : g.variables) {
    s.variables.push_back({v.name, std::nullopt, {{strategy::ParameterServer{c.hosts[2].address}, 5}}});
  }
  const Tally t = Tallier(g, c).tally(s);
  EXPECT_NEAR(t.served_only, 1, 1e-9);
  EXPECT_NEAR(t.served_max, 1, 1e-9);
  EXPECT_NEAR(t.servers, 1.0 / 3, 1e-9);
  EXPECT_EQ(t.messages, 3);
  EXPECT_EQ(t.prioritised, 1);
  double dense = 0;
  for (const auto& v : g.variables) dense += v.sparse ? 0 : static_cast<double>(v.bytes());
  const double rows = 200 * (64 * 4 + 8);
  // A worker sends once; it receives the sum, and of sparse rows both workers'.
  EXPECT_NEAR(t.send_bound, (dense + rows) * 8 / 1e9, 1e-9);
  EXPECT_NEAR(t.receive_bound, (dense + 2 * rows) * 8 / 1e9, 1e-9);
}

// By hand: 4 MB on the server at host 1, 2 x 2 MB in one ring.
TEST(Tally, OfAServerAndAMergedRing) {
  graph::Graph g;
  for (const auto& [name, rows] : {std::pair("a", 1000), {"b", 500}, {"c", 500}}) {
    graph::Variable v;
    v.name = name;
    v.shape = {rows, 1000};
    v.ready_order = 2 - static_cast<int>(g.variables.size());
    v.backward_s = 1;
    g.variables.push_back(v);
  }
  const auto c = cluster::parse("lab:1x10gbit+3x1gbit");
  const strategy::AllReduce ring{.topology = strategy::Topology::kRing, .ring_order = {0, 1, 2, 3}};
  strategy::Strategy s;
  s.variables = {{"a", {}, {{strategy::ParameterServer{c.hosts[1].address}, {}}}},
                 {"b", {}, {{ring, 1}}},
                 {"c", {}, {{ring, 0}}}};
  const Tally t = Tallier(g, c).tally(s);
  EXPECT_EQ(t.parts, 3);
  EXPECT_EQ(t.messages, 2);
  EXPECT_EQ(t.groups, 1);
  EXPECT_EQ(t.small_messages, 0);
  EXPECT_EQ(t.most_parts, 1);
  EXPECT_EQ(t.cut_variables, 0);
  EXPECT_NEAR(t.topologies[static_cast<size_t>(strategy::Topology::kRing)], 0.5, 1e-9);
  EXPECT_NEAR(t.ring_ordered, 0.5, 1e-9);
  EXPECT_NEAR(t.largest_message, 0.5, 1e-9);
  EXPECT_NEAR(t.largest_group, 0.5, 1e-9);
  EXPECT_NEAR(t.waiting, 0.25 * (2.0 / 3 - 1.0 / 3), 1e-9);  // c for b
  EXPECT_NEAR(t.late, 0.5, 1e-9);                            // a is the last
  EXPECT_NEAR(t.prioritised, 2.0 / 3, 1e-9);
  EXPECT_NEAR(t.disorder, 0.25 * 2 / 3, 1e-9);  // c would be second to last
  EXPECT_NEAR(t.servers, 0.25, 1e-9);
  EXPECT_NEAR(t.served_max, 0.5, 1e-9);
  EXPECT_NEAR(t.served_only, 0, 1e-9);
  EXPECT_NEAR(t.served_bandwidth, 0.5 / 10, 1e-9);
  EXPECT_NEAR(t.send_bound, 8e-9 * (3 * 4e6 + 1.5 * 4e6), 1e-9);
  EXPECT_NEAR(t.receive_bound, t.send_bound, 1e-9);
  const double busiest = 8e-9 * 36e6, others = 8e-9 * 20e6;
  EXPECT_NEAR(t.link_spread, busiest / ((busiest + others / 10 + 2 * others) / 4), 1e-9);
}

TEST(Features, OfOneVariableArePerVariable) {
  graph::Graph g;
  g.variables.push_back({.name = "a", .shape = {1000}});
  const auto c = cluster::parse("lab:2x1gbit");
  strategy::Strategy s;
  s.variables.push_back({"a", {}, {{strategy::ParameterServer{c.hosts[1].address}, 0}}});
  const auto row = StrategyFeatures(g, c, {}).compute(std::span(&s, 1));
  EXPECT_EQ(feature(row, "parts"), 1);
  EXPECT_EQ(feature(row, "messages"), 1);
  EXPECT_EQ(feature(row, "prioritised"), 1);
}

// Equal variables that are ready one after the other.
struct InOrder : ::testing::Test {
  void variables(const std::vector<double>& backward_s) {
    for (const double seconds : backward_s) {
      graph::Variable v;
      v.name = std::string(1, static_cast<char>('a' + g.variables.size()));
      v.shape = {1000, 1000};
      v.ready_order = static_cast<int>(g.variables.size());
      v.backward_s = seconds;
      g.variables.push_back(v);
    }
  }
  // Whole variables, all the same way.
  Tally tally(const strategy::Synchronizer& synchronizer, std::optional<int> priority = {}) const {
    strategy::Strategy s;
    for (const auto& v : g.variables) s.variables.push_back({v.name, {}, {{synchronizer, priority}}});
    return Tallier(g, c).tally(s);
  }
  graph::Graph g;
  cluster::Cluster c = cluster::parse("lab:2x1gbit+1x10gbit/server");
};

TEST_F(InOrder, LateIsWhatIsReadyInTheLastTenthOfBackward) {
  variables({8, 1.5, 0.5, 0});
  EXPECT_NEAR(tally(strategy::ParameterServer{c.hosts[0].address}).late, 0.75, 1e-9);
}

TEST_F(InOrder, WithoutAProfileEachTakesEquallyLong) {
  variables({0, 0, 0, 0});
  EXPECT_NEAR(tally(strategy::ParameterServer{c.hosts[0].address}).late, 0.25, 1e-9);
}

TEST_F(InOrder, TheFirstHostServesLikeAnyOther) {
  variables({1, 1});
  const Tally t = tally(strategy::ParameterServer{c.hosts[0].address});
  EXPECT_NEAR(t.served_max, 1, 1e-9);
  EXPECT_NEAR(t.servers, 1.0 / 3, 1e-9);
  EXPECT_NEAR(t.served_bandwidth, 0.1, 1e-9);
}

TEST_F(InOrder, HostsThatOnlyServeAreNotInAnAllReduce) {
  variables({1, 1});
  const Tally t = tally(strategy::AllReduce{});
  EXPECT_NEAR(t.send_bound, 8e6 * 8 / 1e9, 1e-9);  // 2 (w - 1) / w of it, of two
  EXPECT_NEAR(t.receive_bound, 8e6 * 8 / 1e9, 1e-9);
}

TEST_F(InOrder, NoPriorityIsFurtherOffThanAllVariables) {
  variables({1, 1});
  EXPECT_NEAR(tally(strategy::AllReduce{}, 1000).disorder, 1, 1e-9);
}

TEST_F(InOrder, CutVariablesAreCounted) {
  variables({1, 1, 1});
  const strategy::Part part{strategy::ParameterServer{c.hosts[0].address}, {}};
  strategy::Strategy s;
  s.variables = {{"a", strategy::Partition{0, 3}, {part, part, part}},
                 {"b", strategy::Partition{0, 2}, {part, part}},
                 {"c", {}, {part}}};
  const Tally t = Tallier(g, c).tally(s);
  EXPECT_EQ(t.cut_variables, 2);
  EXPECT_EQ(t.most_parts, 3);
  EXPECT_EQ(t.parts, 6);
}

}  // namespace
}  // namespace entrain::simulator
