// AutoDist's layout, made here with its message definitions, is read; what is exported comes back.
#include "entrain/dataset/autodist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "entrain/base/error.h"
#include "entrain/dataset/autodist.pb.h"
#include "entrain/dataset/autodist_names.h"
#include "entrain/dataset/testing.h"
#include "entrain/strategy/stored.h"
#include "entrain/strategy/strategy.pb.h"

namespace entrain::dataset {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;

constexpr const char* kSpec =
    "nodes:\n"
    "- {address: 10.0.0.1, gpus: [0, 1], chief: true, network_bandwidth: 25}\n"
    "- {address: 10.0.0.2, gpus: [0, 1], ssh_config: conf, network_bandwidth: 10}\n"
    "ssh:\n"
    "  conf: {username: ubuntu, key_file: /x}\n";

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

void add_node(pb::GraphDef& graph, const std::string& name, const std::string& op, std::vector<int64_t> shape,
              int type) {
  pb::NodeDef& node = *graph.add_node();
  node.set_name(name);
  node.set_op(op);
  for (const int64_t size : shape) (*node.mutable_attr())["shape"].mutable_shape()->add_dim()->set_size(size);
  (*node.mutable_attr())["dtype"].set_type(type);
}

// An embedding, a convolution in half precision, and things that are no variables of the strategy.
std::string graph_item() {
  pb::GraphDef graph;
  add_node(graph, "input", "Placeholder", {-1, 224}, 1);
  add_node(graph, "embedding", "VarHandleOp", {30522, 1024}, 1);
  add_node(graph, "embedding/Adam", "VarHandleOp", {30522, 1024}, 1);
  add_node(graph, "conv/kernel", "VariableV2", {3, 3, 64, 64}, 19);
  add_node(graph, "conv/kernel/read", "Identity", {}, 19);
  pb::GraphItem item;
  item.mutable_graph_def()->set_type_url("type.googleapis.com/tensorflow.GraphDef");
  item.mutable_graph_def()->set_value(graph.SerializeAsString());
  (*item.mutable_grad_target_pairs())["g/indices:0;g/values:0;g/shape:0"] = "embedding:0";
  (*item.mutable_grad_target_pairs())["g2:0"] = "conv/kernel:0";
  return item.SerializeAsString();
}

std::string stored_strategy(const std::string& id, int compressor = 0, bool sync = true) {
  strategy::pb::Strategy s;
  s.set_id(id);
  s.set_path("/tmp/autodist/strategies/" + id);
  auto& conv = *s.add_node_config();
  conv.set_var_name("conv/kernel:0");
  conv.mutable_allreducesynchronizer()->set_spec(strategy::pb::AllReduceSynchronizer::NCCL);
  conv.mutable_allreducesynchronizer()->set_compressor(
      static_cast<strategy::pb::AllReduceSynchronizer::Compressor>(compressor));
  conv.mutable_allreducesynchronizer()->set_group(1);
  auto& embedding = *s.add_node_config();
  embedding.set_var_name("embedding:0");
  embedding.set_partitioner("2,1");
  for (const char* host : {"10.0.0.1:CPU:0", "10.0.0.2:CPU:0"}) {
    auto& part = *embedding.add_part_config();
    part.set_var_name("embedding/part_0:0");
    part.mutable_pssynchronizer()->set_reduction_destination(host);
    part.mutable_pssynchronizer()->set_sync(sync);
  }
  for (const char* gpu : {"10.0.0.1:GPU:0", "10.0.0.1:GPU:1", "10.0.0.2:GPU:0", "10.0.0.2:GPU:1"}) {
    s.mutable_graph_config()->add_replicas(gpu);
  }
  return s.SerializeAsString();
}

// As published: an ID's three files.
void write_run(const fs::path& cluster, const std::string& id, const std::string& runtime, int compressor = 0,
               bool sync = true) {
  write(cluster / "resource_spec" / id, kSpec);
  write(cluster / "runtime" / id, runtime);
  write(cluster / "strategies" / id, stored_strategy(id, compressor, sync));
}

std::string error_of(const fs::path& root) {
  try {
    import_autodist(root);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(AutoDist, PublishedLayoutIsRead) {
  const Folder folder;
  write(folder / "bert/graph_item", graph_item());
  write_run(folder / "bert/cluster-B", "20200401T101010M1", "average: 1.5\nruntime: [1.4, 1.5, 1.6]\n");
  write_run(folder / "bert/cluster-B", "20200401T101010M2", "{\"average\": 0.25}");
  write(folder / "bert/cluster-B/runtime/without-a-strategy", "average: 1\n");
  ImportOptions options;
  options.batch_size = 8;
  options.sequence = 128;
  const Dataset dataset = import_autodist(folder.path(), options);
  ASSERT_EQ(dataset.domains.size(), 1u);
  const Domain& domain = dataset.domains[0];
  EXPECT_EQ(domain.name, "bert@cluster-B");
  EXPECT_EQ(domain.cluster.workers(), 4);
  EXPECT_EQ(domain.cluster.hosts[1].bandwidth_gbit, 10);

  ASSERT_EQ(domain.graph.variables.size(), 2u) << "optimizer state and constants are no variables";
  const graph::Variable& embedding = domain.graph.variables[0];
  EXPECT_EQ(embedding.name, "embedding:0");
  EXPECT_TRUE(embedding.sparse);
  EXPECT_EQ(embedding.rows_per_step, 1024);
  EXPECT_EQ(embedding.ready_order, 1);
  EXPECT_EQ(domain.graph.variables[1].ready_order, 0);
  EXPECT_THAT(domain.graph.variables[1].shape, ElementsAre(3, 3, 64, 64));
  EXPECT_EQ(domain.graph.variables[1].dtype, "float16");

  ASSERT_EQ(domain.trials.size(), 2u);
  EXPECT_TRUE(domain.trials[0].ok());
  EXPECT_THAT(domain.trials[0].seconds, ElementsAre(1.4, 1.5, 1.6));
  EXPECT_EQ(domain.trials[0].strategy.id, "20200401T101010M1");
  EXPECT_EQ(domain.trials[0].strategy.replicas.size(), 4u);
  EXPECT_THAT(domain.trials[1].seconds, ElementsAre(0.25));
}

TEST(AutoDist, WithoutAGraphItemTheStrategiesNameTheVariables) {
  const Folder folder;
  write_run(folder / "bert/cluster-A", "1", "average: 1.5\n");
  const Domain domain = import_autodist(folder.path()).domains.at(0);
  ASSERT_EQ(domain.graph.variables.size(), 2u);
  EXPECT_EQ(domain.graph.variables[0].name, "conv/kernel:0");
  EXPECT_THAT(domain.graph.variables[1].shape, ElementsAre(2)) << "room for its two shards";
  EXPECT_TRUE(domain.trials[0].ok());
}

TEST(AutoDist, ATableIsNotReadMoreThanOnceAStep) {
  const Folder folder;
  write(folder / "bert/graph_item", graph_item());
  write_run(folder / "bert/B", "1", "average: 1\n");
  ImportOptions options;
  options.batch_size = 1000;
  options.sequence = 1000;
  EXPECT_EQ(import_autodist(folder.path(), options).domains.at(0).graph.variables[0].rows_per_step, 30522);
  options.sequence = 7;
  EXPECT_EQ(import_autodist(folder.path(), options).domains.at(0).graph.variables[0].rows_per_step, 7000);
}

TEST(AutoDist, SizesThatTensorFlowDidNotKnowAreOne) {
  const Folder folder;
  pb::GraphDef def;
  add_node(def, "conv/kernel", "Variable", {-1, 0, 2, 7}, 2);
  add_node(def, "embedding", "VarHandleOp", {}, 14);
  pb::GraphItem item;
  item.mutable_graph_def()->set_value(def.SerializeAsString());
  (*item.mutable_grad_target_pairs())["g/indices:0;g/values:0"] = "embedding:0";
  write(folder / "m/graph_item", item.SerializeAsString());
  write_run(folder / "m/B", "1", "average: 1\n");
  const graph::Graph g = import_autodist(folder.path()).domains.at(0).graph;
  ASSERT_EQ(g.variables.size(), 2u);
  EXPECT_THAT(g.variables[0].shape, ElementsAre(1, 1, 2, 7));
  EXPECT_EQ(g.variables[0].dtype, "float64");
  EXPECT_EQ(g.variables[1].dtype, "bfloat16");
  EXPECT_FALSE(g.variables[1].sparse) << "a number has no rows";
}

TEST(AutoDist, UnknownVariablesAreAsLargeAsTheirShards) {
  const Folder folder;
  strategy::pb::Strategy s;
  for (const auto& [name, partition] : {std::pair("a", ""), {"b", "1,3"}, {"c", "2,1"}, {"b", "1,2"}}) {
    auto& node = *s.add_node_config();
    node.set_var_name(name);
    node.set_partitioner(partition);
    const int parts = partition[0] == 0 ? 1 : (partition[0] - '0') * (partition[2] - '0');
    for (int i = 0; i < parts; ++i) {
      auto& part = parts == 1 ? node : *node.add_part_config();
      part.mutable_pssynchronizer()->set_reduction_destination("10.0.0.1:CPU:0");
      part.mutable_pssynchronizer()->set_sync(true);
    }
  }
  write_run(folder / "m/B", "1", "average: 1\n");
  write(folder / "m/B/strategies/1", s.SerializeAsString());
  const graph::Graph g = import_autodist(folder.path()).domains.at(0).graph;
  ASSERT_EQ(g.variables.size(), 3u);
  EXPECT_THAT(g.variables[0].shape, ElementsAre(1));
  EXPECT_THAT(g.variables[1].shape, ElementsAre(1, 3));
  EXPECT_THAT(g.variables[2].shape, ElementsAre(2));
  EXPECT_EQ(g.variables[0].ready_order, 2);
  EXPECT_EQ(g.variables[1].ready_order, 1);
  EXPECT_EQ(g.variables[2].ready_order, 0);
}

TEST(AutoDist, OneSpecIsForAllRuns) {
  const Folder folder;
  write(folder / "m/B/strategy/1", stored_strategy("1"));
  write(folder / "m/B/runtimes/1", "average: 1\n");
  write(folder / "m/B/resource_specs/any.yml", kSpec);
  EXPECT_EQ(import_autodist(folder.path()).domains.at(0).cluster.workers(), 4);
  write(folder / "m/B/resource_specs/other.yml", kSpec);  // which of the two?
  EXPECT_THAT(error_of(folder.path()), HasSubstr("m/B: no resource_spec for run 1"));
  write(folder / "m/B/resource_spec.yml", "nodes: [{address: 10.0.0.1}, {address: 10.0.0.2}]\n");
  EXPECT_EQ(import_autodist(folder.path()).domains.at(0).cluster.workers(), 2);
  write(folder / "m/B/resource_specs/1.yml", kSpec);
  EXPECT_EQ(import_autodist(folder.path()).domains.at(0).cluster.workers(), 4);
}

TEST(AutoDist, RunsKeepTheirNumbers) {
  const Folder folder;
  for (const char* id : {"07", "12", "7", "9x", "x"}) write_run(folder / "m/B", id, "average: 1\n");
  write(folder / "m/B/runtime/.hidden", "average: 1\n");
  write(folder / "m/B/strategies/.hidden", stored_strategy(".hidden"));
  write_run(folder / "m/.old", "1", "average: 1\n");
  write(folder / "notes.txt", "");
  const Dataset dataset = import_autodist(folder.path());
  ASSERT_EQ(dataset.domains.size(), 1u);
  std::vector<int> numbers;
  for (const Trial& trial : dataset.domains[0].trials) numbers.push_back(trial.number);
  EXPECT_THAT(numbers, ElementsAre(7, 12, 13, 3, 4));
}

TEST(AutoDist, OlderLayoutAndDifferentSpecsAreRead) {
  const Folder folder;
  const fs::path cluster = folder / "vgg16/cluster1";
  write(cluster / "resource_spec.yml", kSpec);
  write(cluster / "runtimes/1", "average: 1\n");
  write(cluster / "strategies/1", stored_strategy("1"));
  write(cluster / "runtimes/2.yml", "average: 2\n");
  write(cluster / "strategies/2", stored_strategy("2"));
  EXPECT_EQ(import_autodist(folder / "vgg16").records(), 2u) << "a model's folder is taken, too";

  write_run(folder / "ncf/B", "1", "average: 1\n");
  write_run(folder / "ncf/B", "2", "average: 1\n");
  write(folder / "ncf/B/resource_spec/2", "nodes: [{address: 10.0.0.1, gpus: [0]}, {address: 10.0.0.2}]\n");
  const Dataset dataset = import_autodist(folder.path());
  ASSERT_EQ(dataset.domains.size(), 3u);
  EXPECT_EQ(dataset.domains[0].name, "ncf@B");
  EXPECT_EQ(dataset.domains[1].name, "ncf@B#2");
}

TEST(AutoDist, RunsThatThisBuildCannotUseAreKeptAsFailed) {
  const Folder folder;
  write_run(folder / "bert/B", "1", "average: 1\n", /*compressor=*/2);
  write_run(folder / "bert/B", "2", "average: 1\n", /*compressor=*/0, /*sync=*/false);
  const auto trials = import_autodist(folder.path()).domains.at(0).trials;
  EXPECT_TRUE(trials.at(0).ok()) << "a compressor is no hindrance";
  EXPECT_FALSE(trials.at(1).ok());
  EXPECT_THAT(trials.at(1).error, HasSubstr("sync is false"));
  EXPECT_THAT(trials.at(1).seconds, ElementsAre(1));
}

TEST(AutoDist, WhatIsExportedComesBack) {
  const Folder folder;
  Dataset dataset{{testing::small_domain("ncf", "lab:4x1gbit"),
                   testing::small_domain("ncf", "lab:2x1gbit+1x10gbit/server"),
                   testing::small_domain("vgg16", "local:3")}};
  dataset.domains[1].graph.variables[1].backward_s = 0.5;  // another profile of the same model
  dataset.domains[1].cluster.links = {{0, 1, 0.93, 100e-6}};
  export_autodist(dataset, folder / "out");
  EXPECT_TRUE(fs::exists(folder / "out/ncf/lab:2x1gbit+1x10gbit%2Fserver/strategies/00000"));
  const Dataset back = import_autodist(folder / "out");
  ASSERT_EQ(back.domains.size(), 3u);
  for (const Domain& domain : dataset.domains) {
    const Domain* other = back.find(domain.name);
    ASSERT_NE(other, nullptr) << domain.name;
    EXPECT_EQ(graph::to_json(other->graph), graph::to_json(domain.graph));
    cluster::Cluster cluster = domain.cluster;
    cluster.hosts[0].chief = true;                                        // AutoDist needs one
    cluster = cluster::cluster_from_yaml(cluster::to_yaml(cluster), "");  // microseconds round
    EXPECT_EQ(cluster::to_yaml(other->cluster), cluster::to_yaml(cluster));
    ASSERT_EQ(other->trials.size() + 1, domain.trials.size()) << "all but the failed one";
    for (size_t i = 0; i < other->trials.size(); ++i) {
      EXPECT_EQ(other->trials[i].number, domain.trials[i].number);
      EXPECT_EQ(other->trials[i].strategy, domain.trials[i].strategy);
      EXPECT_EQ(other->trials[i].seconds, domain.trials[i].seconds);
      EXPECT_TRUE(other->trials[i].ok()) << other->trials[i].error;
    }
  }
  EXPECT_THROW(export_autodist(dataset, folder / "out"), InputError) << "not over what is there";
}

// AutoDist wants devices in a list, one chief, and an ssh_config of each node.
TEST(AutoDist, SpecsAreExportedAsAutoDistWantsThem) {
  const Folder folder;
  Domain domain = testing::small_domain("ncf", "lab:2x1gbit");
  domain.trials.resize(1);
  domain.trials[0].seconds = {1, 2, 6};
  const auto spec = [&](const std::string& name) {
    export_autodist({{domain}}, folder / name);
    return read_file(folder / name / "ncf/lab:2x1gbit/resource_spec/00000");
  };
  for (auto& host : domain.cluster.hosts) host.chief = false;
  domain.cluster.hosts[0].cpus = 2;
  domain.cluster.hosts[1].gpus = 1;
  const std::string first = spec("first");
  EXPECT_THAT(first, HasSubstr("cpus: [0, 1]"));
  EXPECT_THAT(first, HasSubstr("gpus: [0]"));
  EXPECT_LT(first.find("chief: true"), first.find("198.18.0.2"));
  EXPECT_EQ(first.find("chief", first.find("chief") + 1), std::string::npos);
  EXPECT_EQ(read_file(folder / "first/ncf/lab:2x1gbit/runtime/00000"),
            "average: 3\nruntime:\n- 1\n- 2\n- 6\n");
  domain.cluster.hosts[1].chief = true;
  const std::string second = spec("second");
  EXPECT_GT(second.find("chief: true"), second.find("198.18.0.2"));
  EXPECT_EQ(second.find("chief", second.find("chief") + 1), std::string::npos);
}

TEST(AutoDist, DomainsOfAModelHaveTheSameVariables) {
  const Folder folder;
  const Domain domain = testing::small_domain("ncf", "lab:2x1gbit");
  const auto refused = [&](void (*change)(graph::Variable&)) {
    Domain other = testing::small_domain("ncf", "lab:3x1gbit");
    change(other.graph.variables[1]);
    try {
      export_autodist({{domain, other}}, folder / "out");
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), HasSubstr("model ncf: its domains have different variables"));
      fs::remove_all(folder / "out");
      return true;
    }
    fs::remove_all(folder / "out");
    return false;
  };
  EXPECT_FALSE(refused([](graph::Variable& v) { v.forward_s = 7; }));
  EXPECT_TRUE(refused([](graph::Variable& v) { v.name = "other"; }));
  EXPECT_TRUE(refused([](graph::Variable& v) { v.shape = {1}; }));
  EXPECT_TRUE(refused([](graph::Variable& v) { v.dtype = "float16"; }));
  EXPECT_TRUE(refused([](graph::Variable& v) { v.sparse = true; }));
}

TEST(AutoDist, WhatCannotBeReadIsNamed) {
  const Folder folder;
  EXPECT_THAT(error_of(folder / "none"), HasSubstr("none: no such folder"));
  EXPECT_THAT(error_of(folder.path()), HasSubstr("no MODEL/CLUSTER"));
  write_run(folder / "m/B", "7", "average: -1\n");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("m/B/runtime/7: -1 s, allowed: above 0"));
  write_run(folder / "m/B", "7", "average: 0\n");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("m/B/runtime/7: 0 s, allowed: above 0"));
  write_run(folder / "m/B", "7", "runtime: [1, .inf]\n");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("m/B/runtime/7: inf s, allowed: above 0"));
  write_run(folder / "m/B", "7", "[]\n");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("m/B/runtime/7: fields runtime and average are missing"));
  write_run(folder / "m/B", "7", "average: x\n");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("m/B/runtime/7: not a run-time"));
  write_run(folder / "m/B", "7", "average: 1\n");
  write(folder / "m/B/strategies/7", "\xff\xff");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("m/B/strategies/7: not a strategy"));
  write_run(folder / "m/B", "7", "average: 1\n");
  write(folder / "m/graph_item", "\xff\xff");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("m/graph_item: not a GraphItem"));
  write(folder / "m/graph_item", "");
  write(folder / "m/B/resource_spec/7", "nodes: 3\n");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("m/B/resource_spec/7"));
}

TEST(AutoDist, FoldersTakeAnyName) {
  EXPECT_EQ(autodist::to_folder(".a.b/c%"), "%2Ea.b%2Fc%25");
  EXPECT_EQ(autodist::from_folder("%2Ea.b%2Fc%25%2"), ".a.b/c%%2");
  for (const char* name : {"lab:4x1gbit", "a/b%c", ".hidden", "%2F", "100%"}) {
    EXPECT_EQ(autodist::from_folder(autodist::to_folder(name)), name);
    EXPECT_EQ(autodist::to_folder(name).find('/'), std::string::npos);
  }
}

}  // namespace
}  // namespace entrain::dataset
