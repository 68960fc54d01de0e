#include "entrain/planner/cell_program.h"

#include <gtest/gtest.h>

#include "entrain/planner/testing.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::planner {
namespace {

using strategy::to_text;
using testing::chain;
using testing::hosts;

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

// Two layers of 3 per example whose gradients may not travel, and four micro-batches of one.
class TwoCells : public ::testing::Test {
 protected:
  std::vector<CellProgram::Choice> best(double rest, double late = 0, bool recompute = false) {
    const Estimator estimator(graph, cluster, examples, limits, overheads);
    return CellProgram(estimator, order, {1, 2}, micro_batches, recompute).best(rest, late, {2}, 1e9);
  }
  graph::Graph graph = chain({{1, 2, 1000000, 4}, {1, 2, 1000000, 4}});
  cluster::Cluster cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  Limits limits;
  Overheads overheads{1, 0, 0};
  std::vector<int> order = {1, 0};
  int64_t examples = 4;
  int micro_batches = 4;
};

TEST_F(TwoCells, EveryPassAndTransferHasItsOverhead) {
  overheads = {1, 0.5, 0.25};
  EXPECT_TRUE(best(10.4).empty());
  ASSERT_EQ(best(10.5).size(), 1u);
  EXPECT_NEAR(best(10.5)[0].seconds, 2 * 3.5 + 2 * 0.9 + 10.5, 1e-9);
}

TEST_F(TwoCells, RecomputationIsAnotherForwardOfEachPass) {
  EXPECT_TRUE(best(11.9, 0, true).empty());
  ASSERT_EQ(best(12, 0, true).size(), 1u);
  EXPECT_NEAR(best(12, 0, true)[0].seconds, 2 * 4 + 0.8 + 12, 1e-9);
  EXPECT_EQ(to_text(best(12, 0, true)[0].shape), "0@0 1@1 m=4 remat=always");
}

TEST_F(TwoCells, OnOneHostNothingIsTransferred) {
  cluster = hosts({{2, 1, 10}});
  overheads.transfer_s = 0.5;
  ASSERT_EQ(best(9).size(), 1u);
  EXPECT_NEAR(best(9)[0].seconds, 6 + 9, 1e-9);
}

TEST_F(TwoCells, TransfersOfTheOtherMicroBatchesMustFitIntoTheRest) {
  graph.layers[0].output_bytes = 1000;  // 100 s each
  EXPECT_TRUE(best(299).empty());
  ASSERT_EQ(best(300).size(), 1u);
  EXPECT_NEAR(best(300)[0].seconds, 6 + 200 + 300, 1e-9);
}

TEST_F(TwoCells, WhatIsRecomputedKeepsItsInputs) {
  graph = chain({{1, 2, 12, 5}, {1, 2, 12, 5}});
  graph.input_bytes = 7;
  for (auto& layer : graph.layers) layer.kept_bytes = 100;
  limits = {{36 + 2 * 7 + 100, 36 + 5 + 100}, 1};
  EXPECT_EQ(best(1e3, 0, true).size(), 1u);
  limits = {{36 + 2 * 7 + 99, 36 + 5 + 100}, 1};
  EXPECT_TRUE(best(1e3, 0, true).empty());
  limits = {{36 + 2 * 7 + 100, 36 + 5 + 99}, 1};
  EXPECT_TRUE(best(1e3, 0, true).empty());
  limits = {{0, 36 + 5 + 100}, 1};
  EXPECT_EQ(best(1e3, 0, true).size(), 1u) << "0 is no limit";
}

TEST_F(TwoCells, MicroBatchesThatReplicasCannotShareEquallyTakeAnotherRound) {
  // Three on two replicas: one has two of them.
  graph = chain({{1, 2, 4, 4}});
  examples = micro_batches = 3;
  EXPECT_TRUE(best(2.9, 100).empty());
  ASSERT_EQ(best(3, 100).size(), 1u);
  // The faster of two unlike ones takes more, 1.5 are counted for both.
  cluster = hosts({{1, 1, 10}, {1, 0.5, 10}});
  EXPECT_TRUE(best(1.9, 100).empty());
  EXPECT_EQ(best(2, 100).size(), 1u);
}

TEST_F(TwoCells, LateAreTheSumsThatTheLayersBeforeThemDoNotHide) {
  // 8 and 120 bytes at 10 per second and half a second each: 1.3, then 13.8 less the first layer's 6.
  graph = chain({{1, 2, 8, 1000}, {1, 2, 120, 4}});
  micro_batches = 2;
  overheads.transfer_s = 0.5;
  EXPECT_TRUE(best(0, 7.79).empty());
  EXPECT_EQ(best(0, 7.81).size(), 1u);
}

TEST_F(TwoCells, NoneIsSlowerThanTheLimitWithWhatIsLateAndTheRest) {
  const Estimator estimator(graph, cluster, examples, limits, overheads);
  CellProgram program(estimator, order, {1, 2}, micro_batches, false);
  EXPECT_TRUE(program.best(9, 1, {2}, 6.8 + 9 + 1).empty());
  EXPECT_EQ(program.best(9, 1, {2}, 6.9 + 9 + 1).size(), 1u);
}

TEST_F(TwoCells, AnOrderMayWaitForTheRestOfAllMicroBatchesAndTwiceForAllGradients) {
  graph = chain({{1, 2, 8, 1000}, {1, 2, 12, 4}});
  overheads.transfer_s = 0.5;
  const Estimator estimator(graph, cluster, 4, {}, overheads);
  const CellProgram plain(estimator, order, {1, 2}, 4, false), recomputed(estimator, order, {1, 2}, 4, true);
  EXPECT_DOUBLE_EQ(plain.most_rest(), 3 * 6);
  EXPECT_DOUBLE_EQ(recomputed.most_rest(), 3 * 8);
  EXPECT_DOUBLE_EQ(plain.most_late(), 2 * 20 / 10.0 + 2 * 0.5);
  const auto one_host = hosts({{2, 1, 10}});
  const Estimator together(graph, one_host, 4, {}, overheads);
  EXPECT_EQ(CellProgram(together, order, {1, 2}, 4, false).most_late(), 0);
}

}  // namespace
}  // namespace entrain::planner
