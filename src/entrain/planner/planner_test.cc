#include "entrain/planner/planner.h"

#include <gtest/gtest.h>

#include <set>

#include "entrain/base/error.h"
#include "entrain/planner/cell_program.h"
#include "entrain/planner/colocated.h"
#include "entrain/planner/rank_orders.h"
#include "entrain/planner/shares.h"
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

TEST(PlanShapes, AHostsMemoryIsSharedEquallyAmongItsRanks) {
  auto cluster = hosts({{2, 1, 1e9}});
  cluster.hosts[0].memory_gib = 3;
  const Estimator estimator(large_last_layer(), cluster, 8);
  EXPECT_EQ(estimator.memory(1), 1.5 * (1 << 30));
}

TEST(CellProgram, FindsThePipelineAndItsTime) {
  // Two layers of 3 per example, 4 micro-batches of one; gradients too large to travel. One micro-batch takes
  // 6 and two transfers of 0.4, and the other three wait for 3 each.
  const auto graph = chain({{1, 2, 1000000, 4}, {1, 2, 1000000, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  const Estimator estimator(graph, cluster, 4, {}, {1, 0, 0});
  const std::vector<int> order = {1, 0};
  CellProgram program(estimator, order, {1, 2}, 4, false);
  EXPECT_TRUE(program.best(8.9, 0, {2}, 1e9).empty());
  const auto found = program.best(9, 0, {2}, 1e9);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(to_text(found[0].shape), "0@0 1@1 m=4 remat=never");  // the first ranks have the last layers
  EXPECT_NEAR(found[0].seconds, 6 + 0.8 + 9, 1e-9);
  EXPECT_TRUE(program.best(9, 0, {2}, 15).empty());  // slower than what is known
}

TEST(CellProgram, DataParallelismLeavesNoRestButWaitsForItsSums) {
  // Two micro-batches of 2 take 2 x 6; 8 and 12 bytes at 10 per second, of which the second layer's wait
  // behind the first layer's passes: the first's 0.8 are exposed.
  const auto graph = chain({{1, 2, 8, 1000}, {1, 2, 12, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  const Estimator estimator(graph, cluster, 4, {}, {1, 0, 0});
  const std::vector<int> order = {0, 1};
  CellProgram program(estimator, order, {1, 2}, 2, false);
  EXPECT_TRUE(program.best(0, 0.79, {2}, 1e9).empty());
  const auto found = program.best(0, 0.81, {2}, 1e9);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(to_text(found[0].shape), "@0-1 m=2 remat=never");
  EXPECT_NEAR(found[0].seconds, 12 + 0.81, 1e-9);
}

TEST(CellProgram, CountsWhatIsInFlight) {
  // The first of two cells has two micro-batches of one example in flight, 5 bytes each, and 36 of
  // parameters.
  const auto graph = chain({{1, 2, 12, 5}, {1, 2, 12, 5}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  const std::vector<int> order = {1, 0};
  const auto plans = [&](double room) {
    const Estimator estimator(graph, cluster, 4, {{room, 41}, 1}, {1, 0, 0});
    return CellProgram(estimator, order, {1, 2}, 4, false).best(1e3, 1e3, {2}, 1e9).size();
  };
  EXPECT_EQ(plans(46), 1u);
  EXPECT_EQ(plans(45), 0u);
}

TEST(RankOrders, AreDifferentInWhatTheRanksCanDo) {
  const auto graph = large_last_layer();
  const auto alike = hosts({{1, 1, 10}, {1, 1, 10}, {1, 1, 10}});
  EXPECT_EQ(rank_orders(Estimator(graph, alike, 4)).size(), 1u);
  const auto unlike = hosts({{2, 0.5, 10}, {1, 1, 5}});
  const auto orders = rank_orders(Estimator(graph, unlike, 4));
  EXPECT_EQ(orders[0], (std::vector<int>{2, 0, 1}));  // the fastest first
  EXPECT_NE(std::find(orders.begin(), orders.end(), std::vector<int>{0, 1, 2}), orders.end());
  EXPECT_NE(std::find(orders.begin(), orders.end(), std::vector<int>{0, 2, 1}),
            orders.end());  // across hosts
}

TEST(CellWidths, AreAllForFewRanksElsePowersOfTwoAndWholeHosts) {
  const auto graph = large_last_layer();
  const auto few = hosts({{3, 1, 10}});
  EXPECT_EQ(cell_widths(Estimator(graph, few, 4), 3), (std::vector<int>{1, 2, 3}));
  const auto many = hosts({{6, 1, 10}, {6, 1, 10}, {6, 1, 10}});
  EXPECT_EQ(cell_widths(Estimator(graph, many, 4), 18), (std::vector<int>{1, 2, 4, 6, 8, 12, 16, 18}));
}

TEST(PlanShapes, RefusesWrongRequests) {
  EXPECT_THROW(plan_shapes({}, hosts({{}}), 8), InputError);
  EXPECT_THROW(plan_shapes(large_last_layer(), hosts({{}}), 0), InputError);
  PlanOptions options;
  options.limits.memory_bytes = {1, 2};
  EXPECT_THROW(plan_shapes(large_last_layer(), hosts({{}}), 8, options), InputError);
}

TEST(EstimateOf, DataParallelismAddsWhatItsSumsExpose) {
  // 4 examples each: 12 + 24. Both layers' 10 + 30 bytes take 4 s on the links, of which the first layer's 1
  // s and what does not fit beside the first layer's passes, 4 - 12, are exposed.
  const auto graph = chain({{1, 2, 12, 4}, {2, 4, 28, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  const Estimator estimator(graph, cluster, 8, {}, {1, 0, 0});
  EXPECT_NEAR(estimator.of(strategy::data_parallel(2, {0, 1})).seconds, 36 + 1.2, 1e-9);
}

TEST(EstimateOf, APipelineFillsAndDrains) {
  // Two cells of 3 per example, 4 micro-batches of one: (4 + 1) x 3, and one transfer of 4 bytes each way.
  const auto graph = chain({{1, 2, 12, 4}, {1, 2, 12, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  const Estimator estimator(graph, cluster, 4, {}, {1, 0, 0});
  const Shape pipeline{{{0, 1, {0}}, {1, 2, {1}}}, 4, "1f1b", pipeline::Remat::kNever};
  EXPECT_NEAR(estimator.of(pipeline).seconds, 15 + 0.8, 1e-9);
  Shape recomputed = pipeline;
  recomputed.remat = pipeline::Remat::kAlways;
  EXPECT_NEAR(estimator.of(recomputed).seconds, 5 * 4 + 0.8, 1e-9);
}

TEST(EstimateOf, TransfersThatTakeLongerThanPassesQueueForTheLink) {
  // A forward, 4 x 100 s on the link, forward and backward behind it, 100 s back, a backward.
  const auto graph = chain({{1, 2, 12, 1000}, {1, 2, 12, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  const Estimator estimator(graph, cluster, 4, {}, {1, 0, 0});
  EXPECT_NEAR(estimator.of({{{0, 1, {0}}, {1, 2, {1}}}, 4, "1f1b", pipeline::Remat::kNever}).seconds,
              1 + 400 + 3 + 100 + 2, 1e-9);
}

TEST(EstimateOf, SumsAndTransfersShareALink) {
  // 8 examples of 40 bytes cross in each direction beside the sums of 4,000 bytes: 320 + 4000.
  const auto graph = chain({{1, 2, 4000, 40}, {1, 2, 12, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  const Estimator estimator(graph, cluster, 16, {}, {1, 0, 0});
  EXPECT_GE(estimator.of({{{0, 1, {0, 1}}, {1, 2, {1}}}, 4, "1f1b", pipeline::Remat::kNever}).seconds, 432);
}

TEST(EstimateOf, MemoryCountsMicroBatchesInFlight) {
  // Rank 0 of two cells has two micro-batches of 2 examples in flight, rank 1 one; 3 x 12 bytes of
  // parameters.
  const auto graph = chain({{1, 2, 12, 5}, {1, 2, 12, 5}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  Shape shape{{{0, 1, {0}}, {1, 2, {1}}}, 4, "1f1b", pipeline::Remat::kNever};
  const auto lacks = [&](double room) {
    return Estimator(graph, cluster, 8, {{room, 1000}, 1}, {1, 0, 0}).of(shape).shortfall_bytes;
  };
  EXPECT_EQ(lacks(36 + 2 * 2 * 5), 0);
  EXPECT_EQ(lacks(36 + 2 * 2 * 5 - 1), 1);
  shape.schedule = "gpipe";
  EXPECT_EQ(lacks(36 + 2 * 2 * 5), 2 * 2 * 5);
}

TEST(EvenExamples, EndTogether) {
  EXPECT_EQ(even_examples(12, 1, {1, 2}, {0, 0}), (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(even_examples(10, 1, {1, 1}, {4, 0}), (std::vector<int64_t>{3, 7}));
  EXPECT_EQ(even_examples(4, 1, {1, 1, 1}, {100, 0, 0}), (std::vector<int64_t>{0, 2, 2}));
}

TEST(AroundOneOwner, TheOwnerGetsFewerOfTheOtherExamples) {
  // Of 40 x 6 seconds each of 3 ranks takes 80; the owner's 40 x 1 are the last layer's.
  const auto graph = chain({{1.5, 3.5, 4, 4}, {0.25, 0.75, 400, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}, {1, 1, 10}});
  const Estimator estimator(graph, cluster, 40, {}, {1, 0, 0});
  const Shape shape = around_one_owner(estimator, {0, 1, 2}, 1, 0, 1, 10);
  EXPECT_EQ(to_text(shape), "0@0*0.4,1*0.2,2*0.4 1@1 m=10 remat=never");
}

}  // namespace
}  // namespace entrain::planner
