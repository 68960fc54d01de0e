// How all-reduced parts become messages.
#include "entrain/strategy/sampler/grouping.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace entrain::strategy::sampling {
namespace {

using ::testing::ElementsAre;

// All-reduced variables of so many floats, ready from the last to the first.
struct Reduced {
  explicit Reduced(const std::vector<int64_t>& sizes) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      graph::Variable v;
      v.name = fmt::format("v{}", i);
      v.shape = {sizes[i]};
      v.ready_order = static_cast<int>(sizes.size() - i);
      graph.variables.push_back(v);
    }
  }

  DomainFacts facts() const { return {graph, cluster}; }
  Strategy strategy(const DomainFacts& facts) const {
    Strategy s = blank(facts);
    for (VariableConfig& config : s.variables) config.parts = {{AllReduce{}, std::nullopt}};
    return s;
  }

  graph::Graph graph;
  cluster::Cluster cluster = cluster::parse("lab:4x1gbit");
};

std::vector<int> groups_of(const Strategy& strategy) {
  std::vector<int> groups;
  for (const VariableConfig& config : strategy.variables) {
    groups.push_back(std::get<AllReduce>(config.parts[0].synchronizer).group);
  }
  return groups;
}

std::vector<int> merged(const std::vector<int64_t>& sizes, const MergeScheme& scheme) {
  const Reduced model(sizes);
  const DomainFacts facts = model.facts();
  Strategy s = model.strategy(facts);
  Rng rng(1);
  merge(s, parts_of(s, Kind::kAllReduce, facts), scheme, facts, rng);
  return groups_of(s);
}

TEST(Merging, FillsMessagesInTheOrderOfReadiness) {
  const MergeScheme fill{MergeScheme::Rule::kFill, 1, 400};  // bytes of 100 floats
  EXPECT_THAT(merged({50, 50, 50, 50, 50}, fill), ElementsAre(2, 1, 1, 0, 0));
}

TEST(Merging, ALargePartTravelsAloneAndTheOpenMessageStaysOpen) {
  const MergeScheme fill{MergeScheme::Rule::kFill, 1, 400};
  EXPECT_THAT(merged({50, 100, 300, 50}, fill), ElementsAre(0, 2, 1, 0));
}

TEST(Merging, BalancesTheBytesOfContiguousGroups) {
  const MergeScheme balanced{MergeScheme::Rule::kBalanced, 2, 0};
  EXPECT_THAT(merged({10, 10, 10, 10}, balanced), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(merged({10, 10, 10, 90}, balanced), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(merged({90, 10, 10, 10}, balanced), ElementsAre(0, 1, 1, 1));
}

TEST(Merging, ThePublishedSchemesMakeUpToAsManyGroupsAsAllowed) {
  const Reduced model(std::vector<int64_t>(40, 10));
  const DomainFacts facts = model.facts();
  Rng rng(2);
  for (const int allowed : {1, 20}) {
    size_t most = 0;
    for (int i = 0; i < 500; ++i) {
      Strategy s = model.strategy(facts);
      const auto parts = parts_of(s, Kind::kAllReduce, facts);
      merge(s, parts, published_scheme(parts.size(), facts, {.max_groups = allowed}, rng), facts, rng);
      const std::vector<int> groups = groups_of(s);
      most = std::max(most, std::set<int>(groups.begin(), groups.end()).size());
    }
    EXPECT_EQ(most, static_cast<size_t>(allowed));
  }
}

TEST(Renumbering, DropsARingOrderThatTheTopologyDoesNotUse) {
  const Reduced model({10});
  const DomainFacts facts = model.facts();
  for (const auto& [topology, used] : {std::pair(Topology::kRing, true),
                                       {Topology::kTree, true},
                                       {Topology::kAuto, true},
                                       {Topology::kHalvingDoubling, true},
                                       {Topology::kReduceScatter, false},
                                       {Topology::kHierarchical, false}}) {
    Strategy s = model.strategy(facts);
    auto& reduce = std::get<AllReduce>(s.variables[0].parts[0].synchronizer);
    reduce.topology = topology;
    reduce.ring_order = {3, 2, 1, 0};
    renumber(s, facts);
    EXPECT_EQ(!reduce.ring_order.empty(), used) << static_cast<int>(topology);
  }
}

}  // namespace
}  // namespace entrain::strategy::sampling
