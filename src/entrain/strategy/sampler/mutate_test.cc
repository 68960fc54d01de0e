// Single changes to a strategy: what each does, and that it says when it does not apply.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "entrain/strategy/sampler/mutation.h"
#include "entrain/strategy/sampler/partition.h"

namespace entrain::strategy::sampling {
namespace {

graph::Graph model(const std::vector<std::vector<int64_t>>& shapes) {
  graph::Graph graph;
  for (const auto& shape : shapes) {
    graph::Variable v;
    v.name = fmt::format("v{}", graph.variables.size());
    v.shape = shape;
    graph.variables.push_back(v);
  }
  return graph;
}

// Changes to strategies for a model on a cluster.
struct Changes {
  explicit Changes(graph::Graph of, const std::string& on = "lab:4x1gbit")
      : graph(std::move(of)), cluster(cluster::parse(on)), facts(graph, cluster) {}

  // `parent` changed, or nothing when the change does not apply.
  std::optional<Strategy> operator()(Change change, const Strategy& parent) {
    Strategy child = parent;
    Mutation mutation{child, facts, options, rng, groups_above(parent)};
    const bool applies = change(mutation);
    EXPECT_GE(mutation.next_group, groups_above(child)) << "a group in use would be given out as a new one";
    if (applies) return child;
    EXPECT_EQ(child, parent) << "changed by what does not apply";
    return std::nullopt;
  }

  // Every variable whole and all-reduced, in the group of that number.
  Strategy reduced(const std::vector<int>& groups) const {
    Strategy s = blank(facts);
    for (size_t i = 0; i < groups.size(); ++i) {
      AllReduce reduce;
      reduce.group = groups[i];
      s.variables[i].parts = {{reduce, std::nullopt}};
    }
    return s;
  }

  graph::Graph graph;
  cluster::Cluster cluster;
  DomainFacts facts;
  SamplerOptions options;
  Rng rng{1};
};

int groups_in(const Strategy& s) {
  std::set<int> groups;
  for (const VariableConfig& config : s.variables) {
    for (const Part& part : config.parts) {
      if (const auto* reduce = std::get_if<AllReduce>(&part.synchronizer)) groups.insert(reduce->group);
    }
  }
  return static_cast<int>(groups.size());
}

constexpr Change kAll[] = {change_partition, change_synchronizer, change_destination,   change_group,
                           change_priority,  change_compressor,   move_server,          recut_large,
                           place_anew,       merge_anew,          split_group,          join_groups,
                           change_topology,  change_priorities,   serve_all_at_fastest, reduce_all,
                           move_share,       toggle_proxies,      switch_sparse};

TEST(Changes, WhatDoesNotApplyChangesNothingAndNewGroupsAreNew) {
  graph::Graph graph = model({{1000, 64}, {512, 512}, {512}, {256, 4096}, {}});
  graph.variables[0].sparse = true;
  graph.variables[0].rows_per_step = 64;
  Changes changes(graph, "lab:1x10gbit/ranks=2+2x1gbit+1x1gbit/server");
  changes.options.compressors = {parse_compression("fp16")};
  std::map<size_t, int> applied;
  for (int i = 0; i < 200; ++i) {
    const Strategy parent = sample_own(changes.facts, changes.options, changes.rng);
    for (size_t c = 0; c < std::size(kAll); ++c) {
      if (changes(kAll[c], parent)) ++applied[c];
    }
  }
  for (size_t c = 0; c < std::size(kAll); ++c) EXPECT_GT(applied[c], 20) << c;
}

TEST(Changes, AScalarThatIsServedCannotBeCutMergedSplitOrCompressed) {
  Changes changes(model({{}}));
  Strategy served = blank(changes.facts);
  served.variables[0].parts = {{ParameterServer{"198.18.0.1", false, true, 0}, std::nullopt}};
  for (const Change change :
       {recut_large, change_partition, change_group, merge_anew, split_group, join_groups, change_topology,
        toggle_proxies, switch_sparse, change_compressor}) {
    EXPECT_FALSE(changes(change, served));
  }
}

TEST(Changes, OneGroupCanBeSplitButNotJoined) {
  Changes changes(model({{10}, {10}, {10}}));
  const Strategy one = changes.reduced({0, 0, 0}), three = changes.reduced({0, 1, 2});
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(groups_in(changes(split_group, one).value()), 2);
    EXPECT_FALSE(changes(join_groups, one));
    EXPECT_FALSE(changes(split_group, three));
    EXPECT_EQ(groups_in(changes(join_groups, three).value_or(changes.reduced({0, 1, 1}))), 2);
  }
}

TEST(Changes, APartLeavesItsGroupForAnotherOrForOneOfItsOwn) {
  Changes changes(model({{10}, {10}, {10}}));
  std::map<int, int> seen;
  for (int i = 0; i < 100; ++i) {
    if (const auto child = changes(change_group, changes.reduced({0, 0, 1}))) ++seen[groups_in(*child)];
    // From the only group there is no other to go to.
    EXPECT_EQ(
        groups_in(changes(change_group, changes.reduced({0, 0, 0})).value_or(changes.reduced({0, 0, 1}))), 2);
  }
  EXPECT_GT(seen[1], 5);
  EXPECT_GT(seen[2], 5);
  EXPECT_GT(seen[3], 5);
}

TEST(Changes, LargeVariablesThatAreWholeCanBeCutSmallOnesStayWhole) {
  Changes changes(model({{1 << 24}, {10}}));
  int cut = 0;
  for (int i = 0; i < 50; ++i) {
    const auto child = changes(recut_large, changes.reduced({0, 1}));
    if (!child) continue;
    if (child->variables[0].partition) ++cut;
    EXPECT_FALSE(child->variables[1].partition);
  }
  EXPECT_GT(cut, 20);
}

TEST(Changes, OftenAPartitionGetsOneShardMoreOrFewer) {
  Changes changes(model({{1 << 20}}));
  for (const int shards : {2, 3, 20}) {
    Strategy parent = changes.reduced({0});
    recut(parent.variables[0], Partition{0, shards});
    std::map<int, int> seen;
    for (int i = 0; i < 1000; ++i) {
      const auto child = changes(change_partition, parent);
      if (child) ++seen[child->variables[0].partition ? child->variables[0].partition->shards : 1];
    }
    EXPECT_GT(seen[shards - 1], 100) << shards;
    EXPECT_GT(seen[shards + 1], 100) << shards;
  }
}

TEST(Changes, OneVariablesPartsMayBeSynchronizedInDifferentWays) {
  Changes changes(model({{1000}}));
  Strategy parent = changes.reduced({0});
  recut(parent.variables[0], Partition{0, 4});
  std::set<long> served;
  for (int i = 0; i < 200; ++i) {
    const auto parts = changes(change_synchronizer, parent).value().variables[0].parts;
    served.insert(std::ranges::count(parts, Kind::kServer, kind_of));
  }
  EXPECT_THAT(served, ::testing::IsSupersetOf({1, 2, 3, 4}));
}

}  // namespace
}  // namespace entrain::strategy::sampling
