// entrain's space: priorities, and the styles that strategies are drawn in.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "entrain/strategy/sampler/grouping.h"
#include "entrain/strategy/sampler/spaces.h"

namespace entrain::strategy::sampling {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Lt;

// 256 KB to 32 MB, in an order that is neither that of the sizes nor that in which they are ready.
graph::Graph model() {
  graph::Graph graph;
  const std::vector<int64_t> rows = {1 << 10, 1 << 17, 1 << 12, 1 << 14, 1 << 14, 1 << 11, 1 << 13};
  for (size_t i = 0; i < rows.size(); ++i) {
    graph::Variable v;
    v.name = fmt::format("v{}", i);
    v.shape = {rows[i], 64};
    v.ready_order = static_cast<int>((i + 3) % rows.size());
    graph.variables.push_back(v);
  }
  return graph;
}

struct Space {
  explicit Space(graph::Graph of) : graph(std::move(of)) {}
  graph::Graph graph;
  cluster::Cluster cluster = cluster::parse("lab:4x1gbit");
  DomainFacts facts{graph, cluster};
  SamplerOptions options;
  Rng rng{1};
};

std::vector<int> priorities(PriorityOrder order) {
  Space space(model());
  Strategy s = blank(space.facts);
  for (VariableConfig& config : s.variables) config.parts = {{AllReduce{}, 5}};
  set_priorities(s, order, space.facts, space.rng);
  std::vector<int> all;
  for (const VariableConfig& config : s.variables) all.push_back(config.parts[0].priority.value_or(-1));
  return all;
}

TEST(Priorities, FollowTheOrderThatIsChosen) {
  EXPECT_THAT(priorities(PriorityOrder::kForward), Each(-1));  // unset: that of the next forward
  EXPECT_THAT(priorities(PriorityOrder::kReady), ElementsAre(3, 4, 5, 6, 0, 1, 2));
  EXPECT_THAT(priorities(PriorityOrder::kLarge), ElementsAre(6, 0, 4, 1, 2, 5, 3));
  const auto random = priorities(PriorityOrder::kRandom);
  EXPECT_THAT(random, Each(AllOf(Ge(0), Lt(7))));
  EXPECT_GT((std::set<int>(random.begin(), random.end()).size()), 2u);
}

TEST(Styles, TheLargeOrTheSmallVariablesAreServedAndTheOthersReduced) {
  graph::Graph graph = model();
  for (size_t i = 0; i < graph.variables.size(); ++i) {
    graph.variables[i].shape = {static_cast<int64_t>(4096 * (i + 1)), 64};
  }
  Space space(std::move(graph));
  int large = 0, small = 0;
  for (int i = 0; i < 500; ++i) {
    const Strategy s = sample_own(space.facts, space.options, space.rng);
    std::string kinds;  // by size, the largest first
    for (const int v : space.facts.dense_by_size) {
      const auto& parts = s.variables[v].parts;
      const auto served = static_cast<size_t>(std::ranges::count(parts, Kind::kServer, kind_of));
      kinds += served == parts.size() ? 's' : served == 0 ? 'r' : '?';
    }
    if (std::regex_match(kinds, std::regex("s+r+"))) ++large;
    if (std::regex_match(kinds, std::regex("r+s+"))) ++small;
  }
  EXPECT_GT(large, 30);  // by chance: about 5
  EXPECT_GT(small, 30);
}

TEST(Styles, EveryNumberOfShardsIsDrawn) {
  Space space(model());
  std::set<int> shards;
  for (int i = 0; i < 1000; ++i) {
    const Strategy s = sample_own(space.facts, space.options, space.rng);
    if (s.variables[1].partition) shards.insert(s.variables[1].partition->shards);
  }
  EXPECT_GT(shards.size(), 35u);  // of the 39 from 2 to 40
}

TEST(Styles, AboutHalfOfTheSparseVariablesAreCutToAShardPerHostOrSo) {
  graph::Graph graph = model();
  for (graph::Variable& v : graph.variables) v.sparse = true, v.rows_per_step = 64;
  graph.variables[0].shape = {3, 64};  // no more shards than rows
  Space space(std::move(graph));
  int few = 0;
  for (int i = 0; i < 500; ++i) {
    const Strategy s = sample_own(space.facts, space.options, space.rng);
    if (s.variables[1].partition && s.variables[1].partition->shards <= 10) ++few;
    EXPECT_LE(s.variables[0].partition.value_or(Partition{}).shards, 3);
  }
  EXPECT_GT(few, 150);
}

TEST(Topologies, MayDifferFromMessageToMessage) {
  Space space(model());
  Strategy s = blank(space.facts);
  for (size_t i = 0; i < s.variables.size(); ++i) {
    AllReduce reduce;
    reduce.group = static_cast<int>(i);
    s.variables[i].parts = {{reduce, std::nullopt}};
  }
  size_t most = 0;
  for (int i = 0; i < 100; ++i) {
    choose_topologies(s, parts_of(s, Kind::kAllReduce, space.facts), space.facts, space.rng);
    std::set<Topology> seen;
    for (const VariableConfig& config : s.variables) {
      seen.insert(std::get<AllReduce>(config.parts[0].synchronizer).topology);
    }
    most = std::max(most, seen.size());
  }
  EXPECT_GT(most, 2u);
}

TEST(Facts, EqualSizesKeepTheirOrderAndEmptyVariablesCanBeDrawn) {
  graph::Graph graph = model();
  graph.variables[0].shape = {0, 64};
  const Space space(std::move(graph));
  EXPECT_THAT(space.facts.dense_by_size, ElementsAre(1, 3, 4, 6, 2, 5, 0));
  EXPECT_GT(space.facts.traffic[0], 0);
}

}  // namespace
}  // namespace entrain::strategy::sampling
