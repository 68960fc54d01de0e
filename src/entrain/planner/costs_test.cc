#include "entrain/planner/costs.h"

#include <gtest/gtest.h>

#include "entrain/planner/testing.h"

namespace entrain::planner {
namespace {

using testing::chain;

TEST(PassTimes, AreThoseOfTheLayersInTheRange) {
  const PassTimes times(chain({{1, 2, 4, 4}, {3, 5, 4, 4}, {7, 11, 4, 4}}), 2);
  EXPECT_DOUBLE_EQ(times.forward(1, 3), 2 * (3 + 7));
  EXPECT_DOUBLE_EQ(times.backward(0, 2), 2 * (2 + 5));
  EXPECT_DOUBLE_EQ(times.both(1, 2), 2 * (3 + 5));
  EXPECT_EQ(times.both(1, 1), 0);
}

TEST(LayerBytes, ATiedVariableIsCountedOnceInEveryRangeThatReadsIt) {
  auto graph = chain({{1, 2, 100, 4}, {1, 2, 40, 4}, {1, 2, 60, 4}});
  graph.layers[2].variables = {0, 2};
  const LayerBytes bytes(graph);
  EXPECT_EQ(bytes.parameters(0, 1), 100);
  EXPECT_EQ(bytes.parameters(0, 2), 140);
  EXPECT_EQ(bytes.parameters(0, 3), 200);
  EXPECT_EQ(bytes.parameters(1, 2), 40);
  EXPECT_EQ(bytes.parameters(1, 3), 200);
  EXPECT_EQ(bytes.parameters(2, 3), 160);
  EXPECT_EQ(bytes.gradients(1, 3), 200);
}

TEST(LayerBytes, ASparseVariableSendsTheRowsOfAStepAndKeepsAllOfThem) {
  auto graph = chain({{1, 2, 4, 4}, {1, 2, 4000, 4}});
  graph.variables[1].shape = {1000, 1};
  graph.variables[1].sparse = true;
  graph.variables[1].rows_per_step = 8;
  const LayerBytes bytes(graph);
  EXPECT_EQ(bytes.parameters(0, 2), 4004);
  EXPECT_EQ(bytes.gradients(0, 2), 4 + 8 * (4 + 8));
}

TEST(LayerBytes, WhatLeavesALayerEarlyCrossesEveryCutOnItsWay) {
  auto graph = chain({{1, 2, 4, 10}, {1, 2, 4, 20}, {1, 2, 4, 30}, {1, 2, 4, 40}});
  graph.input_bytes = 7;
  graph.skips = {{0, 2, 100}};
  const LayerBytes bytes(graph);
  EXPECT_EQ(bytes.crossing(0), 7);
  EXPECT_EQ(bytes.crossing(1), 110);
  EXPECT_EQ(bytes.crossing(2), 120);
  EXPECT_EQ(bytes.crossing(3), 30);
  EXPECT_EQ(bytes.crossing(4), 0);
  EXPECT_EQ(bytes.kept(1, 3), 50);
}

}  // namespace
}  // namespace entrain::planner
