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

}  // namespace
}  // namespace entrain::simulator
