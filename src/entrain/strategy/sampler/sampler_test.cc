// Whatever is drawn, changed or crossed can be run, stays in its space and is the same for the same seed.
#include "entrain/strategy/sampler/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "entrain/base/error.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/stored.h"
#include "entrain/strategy/validate.h"

namespace entrain::strategy {
namespace {

graph::Variable variable(const std::string& name, std::vector<int64_t> shape, bool sparse = false) {
  graph::Variable v;
  v.name = name;
  v.shape = std::move(shape);
  v.sparse = sparse;
  v.rows_per_step = sparse ? 64 : 0;
  return v;
}

graph::Graph model(std::vector<graph::Variable> variables) {
  graph::Graph g;
  g.model = "hand-made";
  g.variables = std::move(variables);
  const int n = static_cast<int>(g.variables.size());
  for (int i = 0; i < n; ++i) g.variables[i].ready_order = n - 1 - i;
  return g;
}

graph::Graph dense() {
  return model({variable("conv1.weight", {64, 3, 3, 3}), variable("conv1.bias", {64}),
                variable("conv2.weight", {512, 512, 3, 3}), variable("fc1.weight", {4096, 2048}),
                variable("fc1.bias", {4096}), variable("fc2.weight", {1001, 4096}),
                variable("row", {1, 2000000}), variable("thin", {2, 1, 4000000}), variable("one", {1, 1}),
                variable("scale", {})});
}

graph::Graph mixed() {
  graph::Graph g = model({variable("users", {138493, 64}, true), variable("items", {26744, 64}, true),
                          variable("single", {1, 4}, true), variable("mlp.weight", {2560, 1280}),
                          variable("half", {4096, 1024}), variable("mlp.bias", {128})});
  g.variables[4].dtype = "float16";
  return g;
}

const std::vector<std::string> kClusters = {"lab:4x1gbit",
                                            "lab:1x10gbit+3x1gbit",
                                            "lab:3x1gbit+1x10gbit/server",
                                            "lab:2x1gbit+2x1gbit/server",
                                            "lab:2x1gbit/ranks=2+1x1gbit",
                                            "lab:1x1gbit",
                                            "lab:8x1gbit"};

struct Case {
  graph::Graph graph;
  cluster::Cluster cluster;
  std::string name;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& text : kClusters) {
    all.push_back({dense(), cluster::parse(text), "dense on " + text});
    all.push_back({mixed(), cluster::parse(text), "mixed on " + text});
  }
  all.push_back({model({variable("w", {})}), cluster::parse("lab:2x1gbit"), "a scalar"});
  all.push_back({model({}), cluster::parse("lab:2x1gbit"), "nothing"});
  return all;
}

template <typename Function>
void for_each_part(const Strategy& s, Function function) {
  for (const VariableConfig& config : s.variables) {
    for (const Part& part : config.parts) function(config, part);
  }
}

Compressor compressor_of(const Part& part) {
  if (const auto* reduce = std::get_if<AllReduce>(&part.synchronizer)) return reduce->compressor;
  const auto* server = std::get_if<ParameterServer>(&part.synchronizer);
  return server ? server->compressor : Compressor::kNone;
}

class SamplerInSpace : public testing::TestWithParam<Space> {
 protected:
  SamplerOptions options() const { return {.space = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(, SamplerInSpace, testing::Values(Space::kPublished, Space::kOwn),
                         [](const auto& space) {
                           return space.param == Space::kPublished ? "published" : "own";
                         });

TEST_P(SamplerInSpace, EveryDrawCanBeRun) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Sampler sampler(c.graph, c.cluster, options());
    Rng rng(1);
    for (int i = 0; i < 1000; ++i) {
      const Strategy s = sampler.sample(rng);
      ASSERT_NO_THROW(validate(s, c.graph, c.cluster)) << to_json(s);
      ASSERT_EQ(sampler.canonical(s), s);
    }
  }
}

// A walk of mutations and crossovers, begun at builders and draws: every step can be run.
TEST_P(SamplerInSpace, EveryChangeAndCrossingCanBeRun) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Sampler sampler(c.graph, c.cluster, options());
    Rng rng(2);
    std::vector<Strategy> population;
    for (const std::string& name : names()) population.push_back(build(name, c.graph, c.cluster, 3));
    while (population.size() < 20) population.push_back(sampler.sample(rng));
    for (int i = 0; i < 1000; ++i) {
      const Strategy& a = population[rng() % population.size()];
      const Strategy& b = population[rng() % population.size()];
      Strategy child = i % 3 == 0 ? sampler.crossover(a, b, rng) : sampler.mutate(a, rng);
      ASSERT_NO_THROW(validate(child, c.graph, c.cluster)) << to_json(child);
      population[rng() % population.size()] = std::move(child);
    }
  }
}

TEST_P(SamplerInSpace, SameSeedSameStrategies) {
  const Case c{mixed(), cluster::parse("lab:1x10gbit+3x1gbit"), ""};
  const auto walk = [&](uint64_t seed) {
    const Sampler sampler(c.graph, c.cluster, options());
    Rng rng(seed);
    std::vector<Strategy> all{sampler.sample(rng), sampler.sample(rng)};
    for (int i = 0; i < 50; ++i) {
      all.push_back(sampler.mutate(all.back(), rng));
      all.push_back(sampler.crossover(all[all.size() - 1], all[all.size() - 3], rng));
    }
    return all;
  };
  EXPECT_EQ(walk(5), walk(5));
  EXPECT_NE(walk(5), walk(6));
}

TEST_P(SamplerInSpace, MutationChangesMostlyALittle) {
  const Case c{dense(), cluster::parse("lab:4x1gbit"), ""};
  const Sampler sampler(c.graph, c.cluster, options());
  Rng rng(3);
  int changed = 0, kept_variables = 0;
  for (int i = 0; i < 300; ++i) {
    const Strategy parent = sampler.sample(rng);
    const Strategy child = sampler.mutate(parent, rng);
    if (child != parent) ++changed;
    for (size_t v = 0; v < parent.variables.size(); ++v) {
      if (child.variables[v].partition == parent.variables[v].partition) ++kept_variables;
    }
  }
  EXPECT_GT(changed, 270);
  EXPECT_GT(kept_variables, 300 * 10 / 2);
}

TEST_P(SamplerInSpace, CrossingTakesEachVariableFromAParent) {
  const Case c{dense(), cluster::parse("lab:4x1gbit"), ""};
  const Sampler sampler(c.graph, c.cluster, options());
  Rng rng(4);
  // Without group numbers and what follows from them.
  const auto shape = [](VariableConfig config) {
    for (Part& part : config.parts) {
      if (auto* reduce = std::get_if<AllReduce>(&part.synchronizer)) reduce->group = 0;
    }
    return config;
  };
  int mixed = 0;  // a variable of the second between two of the first
  for (int i = 0; i < 200; ++i) {
    const Strategy a = sampler.sample(rng), b = sampler.sample(rng), child = sampler.crossover(a, b, rng);
    std::string parents;
    for (size_t v = 0; v < child.variables.size(); ++v) {
      const bool of_a = shape(child.variables[v]) == shape(a.variables[v]);
      EXPECT_TRUE(of_a || shape(child.variables[v]) == shape(b.variables[v]));
      parents += of_a ? 'a' : 'b';
    }
    if (parents.find("ba") != std::string::npos) ++mixed;
  }
  EXPECT_GT(mixed, 50);
}

TEST(PublishedSpace, HoldsToAutoSyncsRules) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const SamplerOptions options{.space = Space::kPublished};
    const Sampler sampler(c.graph, c.cluster, options);
    Rng rng(7);
    for (int i = 0; i < 300; ++i) {
      Strategy s = sampler.sample(rng);
      for (const VariableConfig& config : s.variables) {
        const graph::Variable& v = c.graph.variables[c.graph.find(config.name)];
        if (v.bytes() <= options.lower_bytes) {
          EXPECT_FALSE(config.partition);
        } else if (v.bytes() >= options.upper_bytes) {
          EXPECT_TRUE(config.partition);
        }
      }
      for (int step = 0; step < 3; ++step) {  // and so do its mutations
        std::set<int> groups;
        for_each_part(s, [&](const VariableConfig& config, const Part& part) {
          EXPECT_FALSE(part.priority);
          EXPECT_FALSE(std::holds_alternative<AllGather>(part.synchronizer));
          if (config.partition) {
            EXPECT_LE(config.partition->shards, 40);
          }
          if (const auto* reduce = std::get_if<AllReduce>(&part.synchronizer)) {
            groups.insert(reduce->group);
            EXPECT_EQ(reduce->topology, Topology::kAuto);
            EXPECT_TRUE(reduce->ring_order.empty());
          }
        });
        EXPECT_LE(groups.size(), 20u);
        s = sampler.mutate(s, rng);
      }
    }
  }
}

TEST(OwnSpace, ReachesWhatThePublishedOneLacks) {
  const graph::Graph g = mixed();
  const cluster::Cluster c = cluster::parse("lab:2x1gbit/ranks=2+1x1gbit+1x10gbit/server");
  const Sampler sampler(g, c);
  Rng rng(8);
  std::map<std::string, int> seen;
  for (int i = 0; i < 500; ++i) {
    std::set<std::string> here;
    const Strategy s = sampler.sample(rng);
    bool served = true, reduced = true, only_server = true;
    for_each_part(s, [&](const VariableConfig& config, const Part& part) {
      const bool sparse = g.variables[g.find(config.name)].sparse;
      if (part.priority) here.insert("priority");
      if (std::holds_alternative<AllGather>(part.synchronizer)) here.insert("all-gather");
      if (const auto* reduce = std::get_if<AllReduce>(&part.synchronizer)) {
        served = false;
        here.insert(fmt::format("topology {}", static_cast<int>(reduce->topology)));
        if (!reduce->ring_order.empty()) here.insert("ring order");
      }
      if (const auto* server = std::get_if<ParameterServer>(&part.synchronizer)) {
        if (!sparse) reduced = false;
        if (server->local_replication) here.insert("proxy");
        if (server->destination != c.hosts.back().address) only_server = false;
      }
    });
    if (served) here.insert("all on servers");
    if (served && only_server) here.insert("all on the server-only host");
    if (reduced) here.insert("all dense reduced");
    for (const std::string& what : here) ++seen[what];
  }
  for (const char* what : {"priority", "all-gather", "ring order", "proxy", "all on servers",
                           "all on the server-only host", "all dense reduced", "topology 0", "topology 1",
                           "topology 2", "topology 3", "topology 4", "topology 5"}) {
    EXPECT_GE(seen[what], 5) << what;
  }
}

TEST(OwnSpace, CompressesOnlyWhenAllowed) {
  const graph::Graph g = mixed();
  const cluster::Cluster c = cluster::parse("lab:1x10gbit+3x1gbit");
  for (const bool allowed : {false, true}) {
    SamplerOptions options;
    if (allowed) options.compressors = {parse_compression("fp16"), parse_compression("powersgd:2")};
    const Sampler sampler(g, c, options);
    Rng rng(3);
    std::map<Compressor, int> seen;
    Strategy s = sampler.sample(rng);
    for (int i = 0; i < 300; ++i) {
      s = i % 3 == 0   ? sampler.sample(rng)
          : i % 3 == 1 ? sampler.mutate(s, rng)
                       : sampler.crossover(s, sampler.sample(rng), rng);
      validate(s, g, c);
      for_each_part(s, [&](const VariableConfig&, const Part& part) { ++seen[compressor_of(part)]; });
    }
    EXPECT_EQ(seen.size(), allowed ? 3u : 1u);
  }
}

TEST(OwnSpace, CompressesTheLargestVariablesFirst) {
  const graph::Graph g = dense();  // the largest: fc1.weight
  const cluster::Cluster c = cluster::parse("lab:4x1gbit");
  const Sampler sampler(g, c, {.compressors = {parse_compression("fp16")}});
  Rng rng(3);
  for (int i = 0; i < 100; ++i) {
    const Strategy s = sampler.sample(rng);
    std::set<std::string> compressed;
    for_each_part(s, [&](const VariableConfig& config, const Part& part) {
      if (compressor_of(part) != Compressor::kNone) compressed.insert(config.name);
    });
    EXPECT_EQ(compressed.contains("fc1.weight"), !compressed.empty());
  }
}

TEST(PublishedSpace, KnowsNoCompressors) {
  const graph::Graph g = dense();
  const cluster::Cluster c = cluster::parse("lab:4x1gbit");
  const Sampler sampler(g, c, {.space = Space::kPublished, .compressors = {parse_compression("fp16")}});
  Rng rng(3);
  Strategy s = sampler.sample(rng);
  for (int i = 0; i < 100; ++i) {
    s = sampler.mutate(s, rng);
    for_each_part(s, [&](const VariableConfig&, const Part& part) {
      EXPECT_EQ(compressor_of(part), Compressor::kNone);
    });
  }
}

TEST(Canonical, WritesOneStrategyInOneWay) {
  const graph::Graph g = dense();
  const cluster::Cluster c = cluster::parse("lab:4x1gbit");
  const Sampler sampler(g, c);
  const Strategy s = build("allreduce", g, c);
  Strategy other = s;
  other.id = "another";
  std::reverse(other.variables.begin(), other.variables.end());
  for (VariableConfig& config : other.variables) {
    for (Part& part : config.parts) {
      auto& reduce = std::get<AllReduce>(part.synchronizer);
      reduce.group = 100 - reduce.group;
      reduce.ring_order = {0, 1, 2, 3};
    }
  }
  EXPECT_EQ(sampler.canonical(other), sampler.canonical(s));
}

TEST(Sampler, RefusesAParentOfAnotherModel) {
  const graph::Graph g = dense(), other = mixed();
  const cluster::Cluster c = cluster::parse("lab:4x1gbit");
  Rng rng(0);
  EXPECT_THROW(Sampler(g, c).mutate(build("ps", other, c), rng), InputError);
}

TEST(Space, IsChosenByName) {
  EXPECT_EQ(space_from("own"), Space::kOwn);
  EXPECT_EQ(space_from("published"), Space::kPublished);
  EXPECT_THROW(space_from("wide"), InputError);
}

}  // namespace
}  // namespace entrain::strategy
