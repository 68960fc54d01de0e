#include "entrain/planner/estimate.h"

#include <gtest/gtest.h>

#include "entrain/planner/testing.h"

namespace entrain::planner {
namespace {

using strategy::Shape;
using testing::chain;
using testing::hosts;

const Overheads kIdeal{1, 0, 0};

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
  const auto slower = hosts({{1, 1, 5}, {1, 1, 10}});
  EXPECT_NEAR(Estimator(graph, slower, 4, {}, {1, 0, 0})
                  .of({{{0, 1, {0}}, {1, 2, {1}}}, 4, "1f1b", pipeline::Remat::kNever})
                  .seconds,
              1 + 800 + 3 + 200 + 2, 1e-9);
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

TEST(Estimator, AHostsMemoryIsSharedEquallyAmongItsRanks) {
  auto cluster = hosts({{2, 1, 1e9}});
  cluster.hosts[0].memory_gib = 3;
  const Estimator estimator(chain({{1, 2, 4, 4}}), cluster, 8);
  EXPECT_EQ(estimator.memory(1), 1.5 * (1 << 30));
}

// Two cells, four micro-batches of one example: every pass forward and backward takes 3, every transfer 0.4.
class EstimateOfTwoCells : public ::testing::Test {
 protected:
  double seconds(const Overheads& overheads) {
    return Estimator(graph, cluster, 4, {}, overheads).of(shape).seconds;
  }
  double lacks(double first, double second) {
    return Estimator(graph, cluster, 4, {{first, second}, 1}, kIdeal).of(shape).shortfall_bytes;
  }
  graph::Graph graph = chain({{1, 2, 12, 4}, {1, 2, 12, 4}});
  cluster::Cluster cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  Shape shape{{{0, 1, {0}}, {1, 2, {1}}}, 4, "1f1b", pipeline::Remat::kNever};
};

TEST_F(EstimateOfTwoCells, EveryPassAndEveryTransferHasItsOverhead) {
  EXPECT_NEAR(seconds({1, 0.5, 0}), 5 * 3 + 2 * 0.9, 1e-9);
  EXPECT_NEAR(seconds({1, 0, 0.25}), 5 * 3.5 + 2 * 0.4, 1e-9);
  EXPECT_NEAR(seconds({0.5, 0, 0}), 5 * 3 + 2 * 0.8, 1e-9);
}

TEST_F(EstimateOfTwoCells, OneOfFourMicroBatchesIsNotRecomputed) {
  shape.remat = pipeline::Remat::kExceptLast;
  // Three of four take 4: 15, and one of average length through the other cell.
  EXPECT_NEAR(seconds(kIdeal), 15 + 3.75 + 0.8, 1e-9);
}

TEST_F(EstimateOfTwoCells, TransfersWithinAHostAreFree) {
  cluster = hosts({{2, 1, 10}});
  EXPECT_NEAR(seconds({1, 0.5, 0}), 15, 1e-9);
}

TEST_F(EstimateOfTwoCells, TheSlowerLinkOfTheTwoCarriesIt) {
  cluster = hosts({{1, 1, 10}, {1, 1, 5}});
  EXPECT_NEAR(seconds(kIdeal), 15 + 1.6, 1e-9);
  cluster = hosts({{1, 1, 5}, {1, 1, 10}});
  EXPECT_NEAR(seconds(kIdeal), 15 + 1.6, 1e-9);
}

TEST_F(EstimateOfTwoCells, ARankThatIsSlowTakesLonger) {
  cluster = hosts({{1, 1, 10}, {1, 0.5, 10}});
  EXPECT_NEAR(seconds(kIdeal), 4 * 6 + 3 + 0.8, 1e-9);
}

TEST_F(EstimateOfTwoCells, RecomputationKeepsTheInputsInFlightAndOneMicroBatchsActivations) {
  shape.remat = pipeline::Remat::kAlways;
  graph.input_bytes = 7;
  for (auto& layer : graph.layers) layer.kept_bytes = 100;
  // 36 of parameters, gradients and one value each that the optimizer keeps.
  EXPECT_EQ(lacks(36 + 2 * 7 + 100, 1000), 0);
  EXPECT_EQ(lacks(36 + 2 * 7 + 100 - 2, 1000), 2);
  EXPECT_EQ(lacks(1000, 36 + 4 + 100 - 3), 3);
  EXPECT_EQ(lacks(36, 36), 114) << "the one that lacks most";
  EXPECT_EQ(lacks(0, 0), 0) << "0 is no limit";
}

TEST_F(EstimateOfTwoCells, MoreReplicasInFrontKeepFewerMicroBatchesEach) {
  graph = chain({{1, 2, 12, 5}, {1, 2, 12, 5}});
  cluster = hosts({{1, 1, 10}, {1, 1, 10}, {1, 1, 10}});
  shape.cells = {{0, 1, {0, 1}}, {1, 2, {2}}};
  // Three replicas from there on are shared by two: two micro-batches each of their two. The last: one.
  const auto lacks_of = [&](const std::vector<double>& room) {
    return Estimator(graph, cluster, 4, {room, 1}, kIdeal).of(shape).shortfall_bytes;
  };
  EXPECT_EQ(lacks_of({46, 46, 41}), 0);
  EXPECT_EQ(lacks_of({46, 45, 41}), 1);
  EXPECT_EQ(lacks_of({46, 46, 40}), 1);
}

TEST(EstimateOf, SumsWaitForOneAnotherAndForTheSlowestLink) {
  // 4 examples on each: the slower rank computes 1.2 + 24. On a link of 5 the sums take 2.4 and 5.6; the
  // second has until the faster rank's passes through the first layer, 0.6, are over.
  const auto graph = chain({{0.1, 0.2, 12, 4}, {2, 4, 28, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 2, 5}});
  const Shape shape = strategy::data_parallel(2, {0, 1});
  EXPECT_NEAR(Estimator(graph, cluster, 8, {}, kIdeal).of(shape).seconds, 25.2 + 8 - 0.6, 1e-9);
  EXPECT_NEAR(Estimator(graph, cluster, 8, {}, {1, 0.5, 0}).of(shape).seconds, 25.2 + 9 - 0.6, 1e-9);
}

TEST(EstimateOf, AJobOfMillisecondsTakesMilliseconds) {
  const auto graph = chain({{0.001, 0.002, 12, 4}});
  const auto cluster = hosts({{1, 1, 10000}, {1, 1, 10000}});
  EXPECT_NEAR(Estimator(graph, cluster, 8, {}, kIdeal).of(strategy::data_parallel(1, {0, 1})).seconds,
              0.012 + 0.0012, 1e-9);
}

TEST(EstimateOf, ReplicasOnOneHostExposeNothing) {
  const auto graph = chain({{1, 2, 4000, 4}});
  const auto cluster = hosts({{2, 1, 1}});
  EXPECT_NEAR(Estimator(graph, cluster, 8, {}, {1, 0.5, 0}).of(strategy::data_parallel(1, {0, 1})).seconds,
              12, 1e-9);
}

TEST(EstimateOf, SumsOfThreeHostsTakeFourThirdsOfTheirBytes) {
  const auto graph = chain({{1, 2, 12, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}, {1, 1, 10}});
  EXPECT_NEAR(Estimator(graph, cluster, 6, {}, kIdeal).of(strategy::data_parallel(1, {0, 1, 2})).seconds,
              6 + 1.6, 1e-9);
}

TEST(EstimateOf, WhatIsSummedBehindACutHasTheTimeBeforeIt) {
  // Rank 0 has the first layer, 1 and 2 two examples each of the second, whose 200 bytes take 20. Until they
  // are needed pass a forward and a backward of the first layer, 3, and the two transfers, 0.8.
  const auto graph = chain({{1, 2, 12, 4}, {1, 2, 200, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}, {1, 1, 10}});
  const Shape shape{{{0, 1, {0}}, {1, 2, {1, 2}}}, 4, "1f1b", pipeline::Remat::kNever};
  const double computed = 4 * 3 + 3 + 0.8;
  EXPECT_NEAR(Estimator(graph, cluster, 4, {}, kIdeal).of(shape).seconds, computed + 20 - 3.8, 1e-9);
}

TEST(EstimateOf, ALinkCarriesTheActivationsOfBothCutsAndTheirGradientsAtBest) {
  // 8 x 1,000 bytes enter and leave the second host; so do their gradients.
  const auto graph = chain({{1, 2, 4, 1000}, {1, 2, 4, 1000}, {1, 2, 4, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}, {1, 1, 10}});
  const Shape shape{{{0, 1, {0}}, {1, 2, {1}}, {2, 3, {2}}}, 8, "1f1b", pipeline::Remat::kNever};
  EXPECT_NEAR(Estimator(graph, cluster, 8, {}, kIdeal).of(shape).seconds, 1600, 1e-9);
  const Shape first{{{0, 1, {1}}, {1, 2, {0}}, {2, 3, {2}}}, 8, "1f1b", pipeline::Remat::kNever};
  EXPECT_NEAR(Estimator(graph, cluster, 8, {}, kIdeal).of(first).seconds, 1600, 1e-9);
}

TEST(EstimateOf, ALinkCarriesSumsAndActivations) {
  // The last layer's sum of 6,000 bytes is hidden behind the first layer's 10,000 seconds of passes, and
  // takes the second and third host's links for 600 s, beside half of the examples' 4 x 1,000 bytes.
  const auto graph = chain({{0.001, 0.002, 4, 4000}, {0.001, 0.002, 6000, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  const Shape shape{{{0, 1, {0}}, {1, 2, {0, 1}}}, 2, "1f1b", pipeline::Remat::kNever};
  EXPECT_NEAR(Estimator(graph, cluster, 2, {}, kIdeal).of(shape).seconds, 1000, 0.1);
}

}  // namespace
}  // namespace entrain::planner
