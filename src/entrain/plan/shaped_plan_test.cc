// Plans of strategies with a shape: whoever holds a variable sums its gradient, and nobody else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "entrain/plan/link_bound.h"
#include "entrain/plan/plan.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/builders/request.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::plan {
namespace {

using ::testing::ElementsAre;

// Four layers of a matrix and a bias; the last layer reads the first one's matrix, too (tied), and layer 1
// has a table.
graph::Graph four_layers() {
  graph::Graph g;
  for (int layer = 0; layer < 4; ++layer) {
    g.variables.push_back({std::to_string(layer) + ".weight", {64, 32}});
    g.variables.push_back({std::to_string(layer) + ".bias", {32}});
    g.layers.push_back({std::to_string(layer), {2 * layer, 2 * layer + 1}});
  }
  g.variables[2].sparse = true;
  g.variables[2].rows_per_step = 4;
  g.layers[3].variables = {0, 6, 7};
  const int count = static_cast<int>(g.variables.size());
  for (int v = 0; v < count; ++v) g.variables[static_cast<size_t>(v)].ready_order = count - 1 - v;
  return g;
}

Plan plan_of(const std::string& builder, const std::string& shape,
             const std::string& cluster = "lab:4x1gbit") {
  const auto g = four_layers();
  const auto d = cluster::parse(cluster);
  auto strategy = strategy::load_or_build(strategy::Request(builder), g, d);
  strategy.shape = strategy::parse_shape(shape, 4);
  return make_plan(strategy, g, d);
}

std::vector<int> ranks_of(const Plan& plan, int variable) {
  std::set<int> all;
  for (const int m : plan.messages_of[static_cast<size_t>(variable)]) {
    const auto& ranks = *plan.messages[static_cast<size_t>(m)].ranks;
    all.insert(ranks.begin(), ranks.end());
  }
  return {all.begin(), all.end()};
}

std::set<int> moving(const Message& message) {
  std::set<int> ranks;
  for (const auto& t : message.schedule->transfers) ranks.insert({t.from, t.to});
  return ranks;
}

TEST(ShapedPlan, AVariableIsSummedByTheHoldersOfAllLayersThatReadIt) {
  for (const char* builder : {"allreduce", "ps", "ps+fp16", "allreduce+topk:0.1"}) {
    const Plan plan = plan_of(builder, "0-1@0,1 2-2@2 3@3,1");
    EXPECT_THAT(ranks_of(plan, 0), ElementsAre(0, 1, 3)) << builder;  // tied
    EXPECT_THAT(ranks_of(plan, 1), ElementsAre(0, 1)) << builder;
    EXPECT_THAT(ranks_of(plan, 2), ElementsAre(0, 1)) << builder;  // sparse
    EXPECT_THAT(ranks_of(plan, 5), ElementsAre(2)) << builder;
    EXPECT_THAT(ranks_of(plan, 7), ElementsAre(1, 3)) << builder;
  }
}

TEST(ShapedPlan, OnlyHoldersAndServersMoveAMessage) {
  const Plan rings = plan_of("allreduce", "0-1@0,1 2-3@2,3");
  for (const Message& message : rings.messages) {
    if (!message.scheduled()) continue;
    const auto ranks = moving(message);
    EXPECT_EQ(ranks, std::set<int>(message.ranks->begin(), message.ranks->end())) << message.what;
  }
  const Plan served = plan_of("ps", "0-1@1,2 2-3@2,3");
  for (const Message& message : served.messages) {
    if (!message.scheduled()) continue;
    auto ranks = moving(message);
    ranks.erase(message.root);
    for (const int rank : ranks) EXPECT_THAT(*message.ranks, ::testing::Contains(rank));
  }
}

TEST(ShapedPlan, WhatOneRankHoldsIsNeitherSentNorCompressed) {
  for (const char* builder : {"allreduce+fp16", "ps+fp16", "allreduce+powersgd:2"}) {
    const auto g = four_layers();
    const auto d = cluster::parse("lab:4x1gbit");
    auto strategy = strategy::load_or_build(strategy::Request(builder), g, d);
    strategy.shape = strategy::parse_shape("@2", 4);
    const Plan plan = make_plan(strategy, g, d);
    EXPECT_THAT(plan.workers, ElementsAre(2));
    EXPECT_THAT(bytes_sent(plan, g), ElementsAre(0, 0, 0, 0)) << builder;
    for (const Message& message : plan.messages) {
      EXPECT_EQ(message.compressor, strategy::Compressor::kNone);
      EXPECT_FALSE(message.any_way);
    }
  }
}

TEST(ShapedPlan, AllWorkersInOneCellArePlainDataParallelism) {
  const auto g = four_layers();
  const auto d = cluster::parse("lab:4x1gbit");
  for (const auto& name : strategy::names()) {
    auto strategy = strategy::build(name, g, d);
    const Plan plain = make_plan(strategy, g, d);
    strategy.shape = strategy::parse_shape("@0-3", 4);
    const Plan shaped = make_plan(strategy, g, d);
    ASSERT_EQ(shaped.messages.size(), plain.messages.size()) << name;
    EXPECT_EQ(bytes_sent(shaped, g), bytes_sent(plain, g)) << name;
    for (size_t m = 0; m < plain.messages.size(); ++m) {
      EXPECT_EQ(shaped.messages[m].what, plain.messages[m].what);
      EXPECT_EQ(shaped.messages[m].any_way, plain.messages[m].any_way);
      EXPECT_EQ(*shaped.messages[m].ranks, *plain.messages[m].ranks);
    }
  }
}

TEST(ShapedPlan, AServerOnlyHostSumsForTheHolders) {
  const Plan plan = plan_of("ps", "0-1@0,1 2-3@1,2", "lab:3x1gbit+1x10gbit/server");
  for (const Message& message : plan.messages) {
    if (message.root != 3) continue;
    EXPECT_THAT(*message.ranks, ::testing::Not(::testing::Contains(3)));
    EXPECT_TRUE(!message.scheduled() || moving(message).count(3) == 1) << message.what;
  }
}

TEST(ShapedPlan, AModelOfUnknownLayersIsOneCell) {
  auto g = four_layers();
  g.layers.clear();
  const auto d = cluster::parse("lab:4x1gbit");
  auto strategy = strategy::build("allreduce", g, d);
  strategy.shape = strategy::Shape{{{0, 1, {1, 3}, {.25, .75}}}};
  const Plan plan = make_plan(strategy, g, d);
  for (int v = 0; v < 8; ++v) EXPECT_THAT(ranks_of(plan, v), ElementsAre(1, 3));
}

}  // namespace
}  // namespace entrain::plan
