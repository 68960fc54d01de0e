// Every builder on every kind of model and cluster gives a strategy that can be run, and each keeps its
// promise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <tuple>

#include "entrain/base/error.h"
#include "entrain/strategy/builders/parts.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/builders/request.h"
#include "entrain/strategy/stored.h"
#include "entrain/strategy/validate.h"

namespace entrain::strategy {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

graph::Variable variable(const std::string& name, std::vector<int64_t> shape, bool sparse = false) {
  graph::Variable v;
  v.name = name;
  v.shape = std::move(shape);
  v.sparse = sparse;
  v.rows_per_step = sparse ? 64 : 0;
  return v;
}

// Gradients become ready in reverse.
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
                variable("fc1.weight", {4096, 2048}), variable("fc1.bias", {4096}),
                variable("fc2.weight", {1001, 4096}), variable("odd", {101, 7}), variable("one", {1, 5}),
                variable("scale", {})});
}

graph::Graph mixed() {
  graph::Graph g = model({variable("users", {138493, 64}, true), variable("items", {26744, 64}, true),
                          variable("tiny", {2, 4}, true), variable("mlp.weight", {256, 128}),
                          variable("half", {128, 128}), variable("mlp.bias", {128})});
  g.variables[4].dtype = "float16";
  return g;
}

const std::vector<std::string> kClusters = {"lab:4x1gbit",
                                            "lab:1x10gbit+3x1gbit",
                                            "lab:3x1gbit+1x10gbit",
                                            "lab:4x1gbit+1x10gbit/server",
                                            "lab:2x1gbit+2x1gbit/server",
                                            "lab:2x1gbit/ranks=2+1x1gbit",
                                            "lab:1x1gbit",
                                            "local:4"};

std::map<std::string, int64_t> load_by_server(const Strategy& s, const graph::Graph& g) {
  std::map<std::string, int64_t> loads;
  for (const VariableConfig& config : s.variables) {
    const graph::Variable& v = g.variables[g.find(config.name)];
    for (const Part& part : config.parts) {
      loads[std::get<ParameterServer>(part.synchronizer).destination] +=
          step_bytes(v) / static_cast<int64_t>(config.parts.size());
    }
  }
  return loads;
}

const VariableConfig& config_of(const Strategy& s, const std::string& name) {
  for (const VariableConfig& config : s.variables) {
    if (config.name == name) return config;
  }
  throw Error("no variable " + name);
}

// The sparse ones and the merge group of each dense one, in ready order.
std::vector<int> groups_in_ready_order(const Strategy& s, const graph::Graph& g) {
  std::vector<int> groups;
  for (const int i : by_readiness(g)) {
    groups.push_back(std::get<AllReduce>(s.variables[i].parts[0].synchronizer).group);
  }
  return groups;
}

TEST(Builders, EveryOneValidatesAndIsStoredWhole) {
  for (const auto& g : {dense(), mixed(), model({variable("w", {3})}), model({})}) {
    for (const std::string& text : kClusters) {
      const cluster::Cluster c = cluster::parse(text);
      for (const std::string& name : names()) {
        SCOPED_TRACE(fmt::format("{} on {}", name, text));
        const Strategy s = build(name, g, c, 7);
        EXPECT_NO_THROW(validate(s, g, c));
        EXPECT_EQ(s.id, name);
        EXPECT_EQ(static_cast<int>(s.replicas.size()), c.workers());
        EXPECT_EQ(s, build(name, g, c, 7));
        EXPECT_EQ(from_json(to_json(s)), s);
        EXPECT_EQ(from_binary(to_binary(s)), s);
      }
    }
  }
}

TEST(Builders, TheNamesAreFixed) {
  EXPECT_THAT(names(),
              ElementsAre("ps", "ps-lb", "partitioned-ps", "uneven-partitioned-ps", "allreduce",
                          "partitioned-allreduce", "random-axis-allreduce", "parallax", "byteps", "ddp"));
}

TEST(Builders, ReplicasAreTheDevicesThatTrain) {
  EXPECT_THAT(build("ps", dense(), cluster::parse("lab:1x1gbit/ranks=2+1x1gbit/server")).replicas,
              ElementsAre("198.18.0.1:CPU:0", "198.18.0.1:CPU:1"));
}

TEST(Ps, ChoosesTheFastestHost) {
  const auto server = [](const std::string& text) {
    const Strategy s = build("ps", dense(), cluster::parse(text));
    EXPECT_EQ(load_by_server(s, dense()).size(), 1u);
    return std::get<ParameterServer>(s.variables[0].parts[0].synchronizer);
  };
  EXPECT_EQ(server("lab:3x1gbit+1x10gbit").destination, "198.18.0.4");
  EXPECT_EQ(server("lab:4x1gbit").destination, "198.18.0.1");
  EXPECT_EQ(server("lab:2x1gbit+2x1gbit/server").destination, "198.18.0.3");
  EXPECT_EQ(server("lab:2x10gbit+1x1gbit/server").destination, "198.18.0.1");
  EXPECT_FALSE(server("lab:4x1gbit").local_replication);
  EXPECT_TRUE(server("lab:2x1gbit/ranks=2").local_replication);
}

// 128 KiB are 32,768 floats.
TEST(Ps, SmallVariablesTravelTogetherInReadyOrder) {
  const graph::Graph g =
      model({variable("e", {16}), variable("d", {16}), variable("large", {32768}), variable("c", {16}),
             variable("b", {16384}), variable("a", {16384}), variable("users", {100, 8}, true)});
  const Strategy s = build("ps", g, cluster::parse("lab:4x1gbit"));
  const auto group = [&](const std::string& name) {
    return std::get<ParameterServer>(config_of(s, name).parts[0].synchronizer).group;
  };
  EXPECT_TRUE(group("a"));
  EXPECT_EQ(group("a"), group("b"));  // 128 KiB: full
  EXPECT_TRUE(group("d"));
  EXPECT_EQ(group("d"), group("e"));
  EXPECT_NE(group("a"), group("d"));
  for (const char* alone : {"users", "c", "large"}) EXPECT_FALSE(group(alone)) << alone;
}

TEST(PsLb, BalancesWithinTheLargestVariable) {
  for (const auto& g : {dense(), mixed()}) {
    const auto loads = load_by_server(build("ps-lb", g, cluster::parse("lab:3x1gbit")), g);
    int64_t largest = 0, low = INT64_MAX, high = 0;
    for (const graph::Variable& v : g.variables) largest = std::max(largest, step_bytes(v));
    for (const auto& [host, load] : loads) low = std::min(low, load), high = std::max(high, load);
    EXPECT_EQ(loads.size(), 3u);
    EXPECT_LE(high - low, largest);
  }
}

TEST(PsLb, UsesServersOfTheirOwnWhenThereAreAny) {
  const auto loads =
      load_by_server(build("ps-lb", dense(), cluster::parse("lab:2x1gbit+2x1gbit/server")), dense());
  EXPECT_EQ(loads.size(), 2u);
  EXPECT_FALSE(loads.count("198.18.0.1"));
}

TEST(PartitionedPs, CutsByTheSmallestDivisor) {
  const Strategy s = build("partitioned-ps", dense(), cluster::parse("lab:4x1gbit"));
  EXPECT_EQ(config_of(s, "fc1.weight").partition, (Partition{0, 2}));
  EXPECT_EQ(config_of(s, "fc2.weight").partition, (Partition{0, 7}));
  EXPECT_FALSE(config_of(s, "odd").partition);  // 101 is prime: 101 shards help nobody
  EXPECT_FALSE(config_of(s, "one").partition);
  EXPECT_FALSE(config_of(s, "scale").partition);
}

TEST(UnevenPartitionedPs, CutsByTheSmallestNonDivisor) {
  const Strategy s = build("uneven-partitioned-ps", dense(), cluster::parse("lab:4x1gbit"));
  EXPECT_EQ(config_of(s, "fc1.weight").partition, (Partition{0, 3}));
  EXPECT_EQ(config_of(s, "odd").partition, (Partition{0, 2}));
  EXPECT_FALSE(
      config_of(build("uneven-partitioned-ps", mixed(), cluster::parse("lab:2x1gbit")), "tiny").partition);
}

// 1 MiB is 262,144 floats.
TEST(AllReduce, MergesFourMegabytesInReadyOrderAndLeavesLargeOnesAlone) {
  const graph::Graph g = model({variable("last", {16}), variable("huge", {5 << 18}), variable("e", {1 << 18}),
                                variable("d", {2 << 18}), variable("c", {1 << 18}), variable("b", {2 << 18}),
                                variable("a", {1 << 18})});
  const Strategy s = build("allreduce", g, cluster::parse("lab:4x1gbit"));
  // ready: a 1, b 2, c 1 -> 4 MiB; d 2, e 1; huge 5; last
  EXPECT_THAT(groups_in_ready_order(s, g), ElementsAre(0, 0, 0, 1, 1, 2, 3));
}

TEST(AllReduce, AGroupHasOneDtypeAndSparseOnesAreGathered) {
  const Strategy s = build("allreduce", mixed(), cluster::parse("lab:4x1gbit"));
  EXPECT_TRUE(std::holds_alternative<AllGather>(config_of(s, "users").parts[0].synchronizer));
  EXPECT_NE(std::get<strategy::AllReduce>(config_of(s, "half").parts[0].synchronizer).group,
            std::get<strategy::AllReduce>(config_of(s, "mlp.bias").parts[0].synchronizer).group);
}

TEST(Ddp, BucketsAreOneThenTwentyFiveMegabytes) {
  std::vector<graph::Variable> variables;
  for (int i = 0; i < 12; ++i) variables.push_back(variable(fmt::format("w{}", i), {10 << 18}));  // 10 MiB
  variables.push_back(variable("bias", {16}));
  variables.push_back(variable("head", {1 << 18}));
  const graph::Graph g = model(std::move(variables));
  const Strategy s = build("ddp", g, cluster::parse("lab:4x1gbit"));
  // ready: head 1 MiB | bias + 3 x 10 | 3 x 10 | ...
  EXPECT_THAT(groups_in_ready_order(s, g), ElementsAre(0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4));
}

TEST(Ddp, ALargeVariableJoinsTheBucketThatIsOpen) {
  const auto g = model({variable("large", {8 << 20}), variable("small", {1000})});  // 32 MiB after 4 kB
  const Strategy s = build("ddp", g, cluster::parse("lab:2x1gbit"));
  EXPECT_EQ(std::get<AllReduce>(s.variables[0].parts[0].synchronizer).group,
            std::get<AllReduce>(s.variables[1].parts[0].synchronizer).group);
}

TEST(Parts, OfASparseVariableWeighItsRowsOrAllOfIt) {
  auto v = variable("users", {1000, 16}, true);
  EXPECT_EQ(step_bytes(v), 64 * (16 * 4 + 8));
  v.rows_per_step = 0;  // not known
  EXPECT_EQ(step_bytes(v), 1000 * 16 * 4);
  EXPECT_EQ(step_bytes(variable("fc", {1000, 16})), 1000 * 16 * 4);
}

TEST(Parts, DivisorsAreTheSmallestAndMayBeTheNumberItself) {
  for (const auto& [n, divisor, other] : {std::tuple(1, 1, 1),
                                          {2, 2, 1},
                                          {3, 3, 2},
                                          {4, 2, 3},
                                          {9, 3, 2},
                                          {35, 5, 2},
                                          {37, 37, 2},
                                          {41, 1, 2}}) {
    EXPECT_EQ(smallest_divisor(n), divisor) << n;
    EXPECT_EQ(smallest_non_divisor(n), other) << n;
  }
}

TEST(PartitionedAllReduce, EveryShardIsAMessageOfItsOwn) {
  const Strategy s = build("partitioned-allreduce", dense(), cluster::parse("lab:4x1gbit"));
  std::map<int, int> parts;
  for (const VariableConfig& config : s.variables) {
    for (const Part& part : config.parts) ++parts[std::get<strategy::AllReduce>(part.synchronizer).group];
  }
  for (const auto& [group, count] : parts) EXPECT_EQ(count, 1) << group;
  EXPECT_EQ(config_of(s, "fc2.weight").parts.size(), 7u);
}

TEST(RandomAxis, TheSeedDecidesTheAxis) {
  const cluster::Cluster c = cluster::parse("lab:4x1gbit");
  std::map<int, int> axes;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    ++axes[config_of(build("random-axis-allreduce", dense(), c, seed), "fc1.weight").partition->axis];
  }
  EXPECT_EQ(axes.size(), 2u);
}

TEST(Parallax, SparseToServersDenseToAllReduce) {
  const Strategy s = build("parallax", mixed(), cluster::parse("lab:4x1gbit"));
  for (const graph::Variable& v : mixed().variables) {
    const Synchronizer& synchronizer = config_of(s, v.name).parts[0].synchronizer;
    EXPECT_EQ(std::holds_alternative<ParameterServer>(synchronizer), v.sparse);
    if (v.sparse) {
      EXPECT_TRUE(std::get<ParameterServer>(synchronizer).local_replication);
    }
  }
}

TEST(BytePs, PartsAreAboutFourMegabytesOverAllServers) {
  const Strategy s = build("byteps", dense(), cluster::parse("lab:4x1gbit"));
  EXPECT_EQ(config_of(s, "fc1.weight").parts.size(), 9u);  // 33.6 MB
  EXPECT_EQ(config_of(s, "fc1.bias").parts.size(), 1u);
  const auto loads = load_by_server(s, dense());
  EXPECT_EQ(loads.size(), 4u);
  for (const auto& [host, load] : loads) EXPECT_LT(load, dense().bytes() / 4 + 4'200'000) << host;
}

TEST(Registry, UnknownNamesListTheAllowedOnes) {
  for (const auto& call :
       {+[](const std::string& name) { build(name, dense(), cluster::parse("local:2")); },
        +[](const std::string& name) { load_or_build(name, dense(), cluster::parse("local:2")); }}) {
    try {
      call("horovod");
      ADD_FAILURE() << "no error";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("horovod"), HasSubstr("ps-lb"), HasSubstr("ddp")));
    }
  }
}

TEST(Registry, LoadsAndValidatesFiles) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("entrain_registry_{}", ::getpid());
  std::filesystem::create_directories(folder);
  const cluster::Cluster c = cluster::parse("lab:4x1gbit");
  const Strategy s = build("byteps", dense(), c);
  for (const char* name : {"s.json", "s.pb"}) {
    save(s, folder / name);
    EXPECT_EQ(load_or_build((folder / name).string(), dense(), c), s);
  }
  try {
    load_or_build((folder / "s.json").string(), mixed(), c);
    ADD_FAILURE() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("s.json"), HasSubstr("another model"), HasSubstr("conv1.weight")));
  }
  EXPECT_THROW(load_or_build("missing.json", dense(), c), InputError);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace entrain::strategy
