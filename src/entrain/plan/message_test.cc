// What a plan makes of a strategy's parts: slices, merged messages and their bytes, in cases small enough to
// count by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/plan/plan.h"

namespace entrain::plan {
namespace {

using strategy::AllReduce;
using strategy::Compressor;
using strategy::Topology;
using testing::ElementsAre;

// Variables "a", "b", "c" and so on, whose gradients backward makes in the opposite order.
graph::Graph graph_of(const std::vector<std::vector<int64_t>>& shapes) {
  graph::Graph g;
  for (size_t i = 0; i < shapes.size(); ++i) {
    graph::Variable v;
    v.name = static_cast<char>('a' + i);
    v.shape = shapes[i];
    v.ready_order = static_cast<int>(shapes.size() - 1 - i);
    g.variables.push_back(v);
  }
  return g;
}

strategy::VariableConfig config(const std::string& name, const std::vector<strategy::Synchronizer>& parts,
                                std::optional<strategy::Partition> partition = {}) {
  strategy::VariableConfig result{name, partition, {}};
  for (const auto& part : parts) result.parts.push_back({part, {}});
  return result;
}

AllReduce all_reduce(Compressor compressor = Compressor::kNone, Topology topology = Topology::kAuto) {
  return {.topology = topology, .compressor = compressor, .ring_order = {}};
}

Plan plan_of(const graph::Graph& g, std::vector<strategy::VariableConfig> variables,
             const std::string& cluster = "lab:3x1gbit") {
  strategy::Strategy s;
  s.variables = std::move(variables);
  return make_plan(s, g, cluster::parse(cluster));
}

void expect_slice(const Slice& slice, const Slice& expected) {
  EXPECT_EQ(slice.variable, expected.variable);
  EXPECT_EQ(slice.axis, expected.axis);
  EXPECT_EQ(slice.begin, expected.begin);
  EXPECT_EQ(slice.end, expected.end);
  EXPECT_EQ(slice.elements, expected.elements);
}

TEST(Slices, OfWholeVariablesAreAlongTheFirstAxis) {
  const auto g = graph_of({{4, 7}, {}});
  const Plan plan = plan_of(g, {config("a", {all_reduce()}), config("b", {all_reduce()})});
  ASSERT_EQ(plan.messages.size(), 1u);
  ASSERT_EQ(plan.messages[0].slices.size(), 2u);
  expect_slice(plan.messages[0].slices[0], {1, 0, 0, 1, 1});  // a scalar; ready first
  expect_slice(plan.messages[0].slices[1], {0, 0, 0, 4, 28});
}

TEST(Slices, OfAShardedVariableAreNearEqual) {
  const auto g = graph_of({{4, 7}});
  const Plan plan = plan_of(g, {config("a", {all_reduce(), all_reduce(), all_reduce()}, {{1, 3}})});
  ASSERT_EQ(plan.messages.size(), 1u);
  ASSERT_EQ(plan.messages[0].slices.size(), 3u);
  expect_slice(plan.messages[0].slices[0], {0, 1, 0, 3, 12});
  expect_slice(plan.messages[0].slices[1], {0, 1, 3, 5, 8});
  expect_slice(plan.messages[0].slices[2], {0, 1, 5, 7, 8});
  EXPECT_THAT(plan.messages_of[0], ElementsAre(0));  // once, though three slices are in it
}

TEST(Slices, InSeveralMessagesAreListedByVariable) {
  const auto g = graph_of({{4, 7}, {5}});
  auto second = all_reduce();
  second.group = 1;
  const Plan plan = plan_of(g, {config("a", {all_reduce(), second}, {{0, 2}}), config("b", {second})});
  ASSERT_EQ(plan.messages.size(), 2u);
  EXPECT_THAT(plan.messages_of[0], ElementsAre(0, 1));
  EXPECT_THAT(plan.messages_of[1], ElementsAre(1));
  EXPECT_EQ(plan.messages[1].what, "all-reduce of b and 1 more");
  EXPECT_EQ(plan.messages[0].what, "all-reduce of a[0:2]");
}

TEST(Slices, FindTheirVariableInWhateverOrderAStrategyListsThem) {
  const auto g = graph_of({{1}, {2}, {3}});
  for (const auto& names : {std::vector{"c", "a", "b"}, {"b", "c", "a"}, {"a", "c", "b"}}) {
    std::vector<strategy::VariableConfig> configs;
    for (const char* name : names) configs.push_back(config(name, {all_reduce()}));
    const Plan plan = plan_of(g, configs);
    ASSERT_EQ(plan.messages[0].slices.size(), 3u);
    for (const Slice& slice : plan.messages[0].slices) EXPECT_EQ(slice.elements, slice.variable + 1);
  }
}

TEST(Slices, ReadyAtTheSameTimeStayInTheStrategysOrder) {
  auto g = graph_of({{1}, {2}, {3}});
  for (auto& v : g.variables) v.ready_order = 0;
  const Plan plan =
      plan_of(g, {config("b", {all_reduce()}), config("c", {all_reduce()}), config("a", {all_reduce()})});
  ASSERT_EQ(plan.messages[0].slices.size(), 3u);
  EXPECT_EQ(plan.messages[0].slices[0].variable, 1);
  EXPECT_EQ(plan.messages[0].slices[1].variable, 2);
  EXPECT_EQ(plan.messages[0].slices[2].variable, 0);
}

// As PowerSGD needs it: the first axis by the rest.
TEST(MatrixOf, KeepsTheRowsOfASlice) {
  const auto v = graph_of({{6, 5, 2}}).variables[0];
  const auto matrix = [&](const Slice& slice) {
    const Matrix m = matrix_of(slice, v);
    return std::pair(m.rows, m.columns);
  };
  EXPECT_EQ(matrix({0, 0, 0, 6, 60}), std::pair(int64_t{6}, int64_t{10}));
  EXPECT_EQ(matrix({0, 0, 2, 5, 30}), std::pair(int64_t{3}, int64_t{10}));
  EXPECT_EQ(matrix({0, 0, 5, 6, 10}), std::pair(int64_t{1}, int64_t{10}));
  EXPECT_EQ(matrix({0, 1, 2, 4, 24}), std::pair(int64_t{6}, int64_t{4}));
  EXPECT_EQ(matrix({0, 2, 1, 2, 30}), std::pair(int64_t{6}, int64_t{5}));
  const Matrix scalar = matrix_of({0, 0, 0, 1, 1}, graph_of({{}}).variables[0]);
  EXPECT_EQ(std::pair(scalar.rows, scalar.columns), std::pair(int64_t{1}, int64_t{1}));
}

// 2 (30 + 20) numbers of a matrix of 600, and the 7 of a vector as they are.
TEST(Message, OfLowRankCountsTheNumbersOfItsFactors) {
  const auto g = graph_of({{30, 20}, {7}});
  auto power = all_reduce(Compressor::kPowerSgd);
  power.rank = 2;
  const Plan plan = plan_of(g, {config("a", {power}), config("b", {power})});
  ASSERT_EQ(plan.messages.size(), 1u);
  EXPECT_EQ(plan.messages[0].exchange, Exchange::kLowRank);
  EXPECT_EQ(plan.messages[0].wire_elements, 107);
  EXPECT_EQ(plan.messages[0].elements(), 607);
  EXPECT_DOUBLE_EQ(wire_bytes(plan.messages[0], g), 107 * 4);
}

TEST(Message, OfTopKHasAtLeastOneElement) {
  const auto g = graph_of({{250}});
  auto top = all_reduce(Compressor::kTopK);
  for (const auto& [share, elements] : {std::pair(0.001, 1), {0.01, 3}, {0.1, 25}, {1.0, 250}}) {
    top.share = share;
    const Plan plan = plan_of(g, {config("a", {top})});
    EXPECT_EQ(plan.messages[0].top_k(), elements) << share;
    EXPECT_EQ(plan.messages[0].what, "top-k all-gather of a");
  }
}

TEST(Message, TravelsAsItsCast) {
  const auto g = graph_of({{250}});
  const auto wire = [&](Compressor compressor) {
    return plan_of(g, {config("a", {all_reduce(compressor)})}).messages[0].wire_type();
  };
  EXPECT_EQ(wire(Compressor::kNone), std::nullopt);
  EXPECT_EQ(wire(Compressor::kPowerSgd), std::nullopt);
  EXPECT_EQ(wire(Compressor::kBf16), collective::Type::kBFloat16);
  EXPECT_EQ(wire(Compressor::kHorovod), collective::Type::kFloat16);
  EXPECT_EQ(wire(Compressor::kHorovodEF), collective::Type::kFloat16);
}

TEST(Message, MayGoAnyWayOnlyWhereTheStrategyLeavesItOpen) {
  const auto g = graph_of({{250}});
  const auto any_way = [&](const AllReduce& choice) {
    return plan_of(g, {config("a", {choice})}).messages[0].any_way;
  };
  EXPECT_TRUE(any_way(all_reduce()));
  EXPECT_FALSE(any_way(all_reduce(Compressor::kNone, Topology::kRing)));
  EXPECT_FALSE(any_way(all_reduce(Compressor::kBf16)));
  EXPECT_FALSE(any_way(all_reduce(Compressor::kPowerSgd)));
  EXPECT_FALSE(any_way(all_reduce(Compressor::kTopK)));
}

TEST(Message, OfAWorkerThatTrainsAloneIsNotCompressed) {
  const auto g = graph_of({{250}});
  for (const auto compressor : {Compressor::kBf16, Compressor::kPowerSgd, Compressor::kTopK}) {
    const auto alone = plan_of(g, {config("a", {all_reduce(compressor)})}, "local:1");
    EXPECT_EQ(alone.messages[0].compressor, Compressor::kNone);
    EXPECT_EQ(alone.messages[0].exchange, Exchange::kDense);
    const auto two = plan_of(g, {config("a", {all_reduce(compressor)})}, "local:2");
    EXPECT_EQ(two.messages[0].compressor, compressor);
  }
}

// A shard of a table sends its share of the rows; a table may be a single number.
TEST(WireBytes, OfRowsAreTheSlicesShare) {
  auto g = graph_of({{100, 10}, {1, 1}});
  for (auto& v : g.variables) v.sparse = true;
  g.variables[0].rows_per_step = 5;
  g.variables[1].rows_per_step = 1;
  const strategy::AllGather gather;
  const Plan plan = plan_of(g, {config("a", {gather, gather}, {{0, 2}}), config("b", {gather})});
  ASSERT_EQ(plan.messages.size(), 3u);
  EXPECT_DOUBLE_EQ(wire_bytes(plan.messages[0], g), 5 * (40 + 8) / 2.0);
  EXPECT_DOUBLE_EQ(wire_bytes(plan.messages[1], g), 5 * (40 + 8) / 2.0);
  EXPECT_DOUBLE_EQ(wire_bytes(plan.messages[2], g), 4 + 8);
}

}  // namespace
}  // namespace entrain::plan
