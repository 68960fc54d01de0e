#include "entrain/planner/planner.h"

#include <gtest/gtest.h>

#include <set>

#include "entrain/base/error.h"
#include "entrain/planner/testing.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::planner {
namespace {

using strategy::Shape;
using strategy::to_text;
using testing::chain;
using testing::hosts;

PlanOptions ideal() {
  PlanOptions options;
  options.overheads = {1, 0, 0};
  return options;
}

// Much work in small layers, then a large one with little work: VGG's form.
graph::Graph large_last_layer() {
  return chain({{2, 4, 40, 400}, {2, 4, 40, 200}, {2, 4, 40, 20}, {0.1, 0.2, 1000000, 4}});
}

TEST(PlanShapes, OfOneRankHasAllLayersThere) {
  const auto plans = plan_shapes(large_last_layer(), hosts({{}}), 8, ideal());
  ASSERT_FALSE(plans.empty());
  EXPECT_EQ(plans[0].shape.ranks(), std::vector<int>{0});
  EXPECT_NEAR(plans[0].seconds, 8 * 18.3, 1e-9);
}

TEST(PlanShapes, UsesOneHostWhereLinksCarryNothing) {
  const auto plans =
      plan_shapes(large_last_layer(), hosts({{1, 1, 1e-3}, {2, 0.8, 1e-3}, {1, 1, 1e-3}}), 8, ideal());
  EXPECT_EQ(plans[0].shape.ranks(), (std::vector<int>{1, 2}));  // 1.6 is more than 1
}

TEST(PlanShapes, UsesAllRanksWhereLinksAreFast) {
  const auto plans = plan_shapes(large_last_layer(),
                                 hosts({{1, 1, 1e9}, {1, 1, 1e9}, {1, 1, 1e9}, {1, 1, 1e9}}), 8, ideal());
  EXPECT_EQ(plans[0].shape.ranks().size(), 4u);
  EXPECT_NEAR(plans[0].seconds, 8 * 18.3 / 4, 0.1);
}

TEST(PlanShapes, PutsALargeLastLayerOnOneOfTheRanksThatShareTheOthers) {
  // The large layer's 1,000,000 bytes may not travel; what flows into it may.
  const auto plans =
      plan_shapes(large_last_layer(), hosts({{1, 1, 2000}, {1, 1, 2000}, {1, 1, 2000}}), 60, ideal());
  const Shape& best = plans[0].shape;
  ASSERT_EQ(best.cells.size(), 2u) << to_text(best);
  EXPECT_EQ(best.cells[1].begin, 3);
  ASSERT_EQ(best.cells[1].replicas(), 1);
  EXPECT_EQ(best.cells[0].replicas(), 3);
  EXPECT_NE(std::find(best.cells[0].ranks.begin(), best.cells[0].ranks.end(), best.cells[1].ranks[0]),
            best.cells[0].ranks.end());
  EXPECT_LT(plans[0].seconds, 60 * 18.3 / 3 * 1.1);
}

TEST(PlanShapes, SharesFollowSpeed) {
  const auto plans = plan_shapes(chain({{1, 2, 4, 4}}), hosts({{1, 1, 1e9}, {1, 0.5, 1e9}}), 12, ideal());
  const auto& cell = plans[0].shape.cells[0];
  ASSERT_EQ(cell.replicas(), 2);
  for (int r = 0; r < 2; ++r) EXPECT_NEAR(cell.share(r), cell.ranks[r] == 0 ? 2.0 / 3 : 1.0 / 3, 1e-9);
}

TEST(PlanShapes, AreValidDifferentAndSortedWithOneHostAmongThem) {
  const auto graph = large_last_layer();
  const auto cluster = hosts({{2, 1, 3000}, {1, 0.5, 1000}, {1, 1, 1000}});
  const auto plans = plan_shapes(graph, cluster, 16, ideal());
  std::set<std::string> texts;
  bool one_host = false;
  for (size_t i = 0; i < plans.size(); ++i) {
    EXPECT_NO_THROW(strategy::validate(plans[i].shape, 4, cluster, 16)) << to_text(plans[i].shape);
    EXPECT_TRUE(texts.insert(to_text(plans[i].shape)).second);
    EXPECT_LE(plans[i > 0 ? i - 1 : 0].seconds, plans[i].seconds);
    const auto ranks = plans[i].shape.ranks();
    one_host = one_host || cluster.host_of(ranks.front()) == cluster.host_of(ranks.back());
  }
  EXPECT_TRUE(one_host);
  EXPECT_LE(plans.size(), 54u);
}

TEST(PlanShapes, AreNoMoreThanAskedForBesideTheFirstOfEachOrigin) {
  PlanOptions options = ideal();
  options.most = 3;
  EXPECT_EQ(plan_shapes(chain({{1, 2, 4, 4}}), hosts({{}}), 8, options).size(), 4u);  // all take as long
  options.most = 0;
  const auto plans = plan_shapes(large_last_layer(), hosts({{1, 1, 100}, {1, 1, 100}}), 8, options);
  std::multiset<std::string> origins;
  for (const auto& plan : plans) origins.insert(plan.origin);
  EXPECT_EQ(origins.count("cells"), 1u);
  EXPECT_EQ(origins.count("co-located"), 1u);
  EXPECT_LE(origins.count("whole model"), 2u);  // on one host, too
}

std::set<int> micro_batches_tried(const cluster::Cluster& cluster, int64_t examples) {
  PlanOptions options = ideal();
  options.most = 1000000;
  options.rests = 1;
  std::set<int> tried;
  for (const auto& plan : plan_shapes(chain({{1, 2, 4, 4}, {1, 2, 4, 4}}), cluster, examples, options)) {
    if (plan.origin == "co-located") tried.insert(plan.shape.micro_batches);
  }
  return tried;
}

TEST(PlanShapes, TriesEveryFewMicroBatchesThenPowersOfTwoAndTheirHalvesBetween) {
  EXPECT_EQ(micro_batches_tried(hosts({{1, 1, 1e9}, {1, 0.9, 1e9}}), 100),
            (std::set<int>{2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96}));
  EXPECT_EQ(micro_batches_tried(hosts({{1, 1, 1e9}, {1, 0.9, 1e9}}), 12),
            (std::set<int>{2, 3, 4, 5, 6, 7, 8, 12}));
}

TEST(PlanShapes, TriesMicroBatchesByTheNumberOfRanksWhereThereAreMany) {
  const auto tried = micro_batches_tried(hosts({{17, 1, 1e9}}), 200);
  EXPECT_EQ(tried, (std::set<int>{8, 16, 17, 32, 34, 68}));
}

TEST(PlanShapes, CutsAModelThatNoRankHasRoomFor) {
  const auto graph = chain({{1, 2, 1000, 4}, {1, 2, 1000, 4}});
  const auto cluster = hosts({{1, 1, 1e9}, {1, 1, 1e9}});
  PlanOptions options = ideal();
  options.limits = {{4000, 4000}, 1};  // three values per parameter: one layer fits
  const auto plans = plan_shapes(graph, cluster, 8, options);
  ASSERT_FALSE(plans.empty());
  for (const auto& plan : plans) EXPECT_GE(plan.shape.cells.size(), 2u) << to_text(plan.shape);
  options.limits = {{2000, 2000}, 1};
  EXPECT_TRUE(plan_shapes(graph, cluster, 8, options).empty());
}

TEST(PlanShapes, RecomputesWhereActivationsDoNotFit) {
  auto graph = chain({{1, 2, 4, 1}, {1, 2, 4, 1}});
  for (auto& layer : graph.layers) layer.kept_bytes = 100;
  const auto cluster = hosts({{1, 1, 1e-9}});
  PlanOptions options = ideal();
  options.micro_batches = {8};
  options.limits = {{250}, 1};
  const auto plans = plan_shapes(graph, cluster, 8, options);
  ASSERT_FALSE(plans.empty());
  EXPECT_EQ(plans[0].shape.micro_batches, 8);  // one example at a time: 200 bytes and 24 of parameters
}

TEST(PlanShapes, RanksThatOnlyServeHoldNothing) {
  const auto plans =
      plan_shapes(large_last_layer(), hosts({{1, 1, 1e9}, {0, 1, 1e9}, {1, 1, 1e9}}), 8, ideal());
  EXPECT_EQ(plans[0].shape.ranks(), (std::vector<int>{0, 2}));
  for (const auto& plan : plans) EXPECT_FALSE(plan.shape.holds(1)) << to_text(plan.shape);
}

TEST(PlanShapes, RefusesWrongRequests) {
  EXPECT_THROW(plan_shapes({}, hosts({{}}), 8), InputError);
  EXPECT_THROW(plan_shapes(large_last_layer(), hosts({{}}), 0), InputError);
  PlanOptions options;
  options.limits.memory_bytes = {1, 2};
  EXPECT_THROW(plan_shapes(large_last_layer(), hosts({{}}), 8, options), InputError);
}

}  // namespace
}  // namespace entrain::planner
