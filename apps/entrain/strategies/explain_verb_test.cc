// `entrain explain` and `entrain simulate`, run in this process on stored graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "entrain/base/files.h"
#include "entrain/dataset/testing.h"
#include "entrain/strategy/stored.h"
#include "graph_verb.h"
#include "model_outline.h"
#include "support/verb_output.h"
#include "verbs.h"

namespace entrain::app {

namespace explain_verb {
void add_explain(CLI::App& app, Action& action);
}
namespace simulate_verb {
void add_simulate(CLI::App& app, Action& action);
}
graph::Graph profile_model(const ProfileRequest& request) {  // the real one brings torch along
  return dataset::testing::small_graph(request.model);
}
// Four layers; the last reads the first one's parameter, too.
ModelOutline outline_model(const std::string& model) {
  return {model,
          {"in", "a", "b", "out"},
          {{"in.weight", 4000, {0, 3}}, {"a.weight", 100, {1}}, {"b.weight", 20, {2}}}};
}

namespace {

using dataset::testing::Folder;
using ::testing::HasSubstr;
using Json = nlohmann::json;

std::string run(const std::string& arguments) {
  const auto output = testing::run_verb({explain_verb::add_explain, simulate_verb::add_simulate}, arguments);
  EXPECT_EQ(output.code, 0);
  return output.text;
}

std::string refusal(const std::string& arguments) {
  return testing::refusal_of([&] { run(arguments); });
}

class ExplainVerb : public ::testing::Test {
 protected:
  ExplainVerb() {
    graph::save(dataset::testing::small_graph("small"), folder_ / "g.json");
    dataset::save({{dataset::testing::small_domain("small", "lab:4x1gbit"),
                    dataset::testing::small_domain("other", "lab:4x1gbit")}},
                  folder_ / "trials.jsonl");
  }
  std::string in(const std::string& name) const { return (folder_ / name).string(); }

  Folder folder_;
};

TEST_F(ExplainVerb, HasTheNamesThatScriptsRelyOn) {
  const Json j = Json::parse(run("explain parallax --json --cluster lab:4x1gbit --graph " + in("g.json")));
  EXPECT_EQ(j.at("same_as"), "parallax");
  EXPECT_DOUBLE_EQ(
      j["shares"]["ps"]["share"].get<double>() + j["shares"]["all_reduce"]["share"].get<double>(), 1);
  EXPECT_EQ(j.at("placement").size(), 4u);
  EXPECT_EQ(j["links"][0].at("binds"), true);
  EXPECT_GE(j["link_bound"]["seconds"], j["link_bound"]["best_possible_s"]);
  EXPECT_GT(j["simulated"]["seconds"], j["link_bound"]["seconds"]);
  EXPECT_FALSE(j.at("critical_path").empty());
  EXPECT_FALSE(j["baseline"]["differences"].empty());
  EXPECT_TRUE(j["baseline"]["differences"][0].contains("worth_s"));
}

// 0.50x of the best possible is more than possible: the best is that of the bytes that are sent.
TEST_F(ExplainVerb, CompressedStrategiesDoNotBeatTheBestPossible) {
  for (const char* compressor : {"fp16", "fp16-ef", "bf16", "powersgd", "topk"}) {
    const Json j = Json::parse(run(fmt::format("explain allreduce+{} --json --cluster lab:4x1gbit --graph {}",
                                               compressor, in("g.json"))));
    EXPECT_GE(j["link_bound"]["seconds"].get<double>(),
              0.999 * j["link_bound"]["best_possible_s"].get<double>())
        << compressor;
  }
}

TEST_F(ExplainVerb, TextFitsAScreen) {
  const std::string text = run("explain byteps --cluster lab:16x1gbit --graph " + in("g.json"));
  EXPECT_THAT(text, HasSubstr("link bound"));
  EXPECT_THAT(text, HasSubstr("against"));
  EXPECT_THAT(text, HasSubstr("and 8 less busy ones"));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 40);
}

// The event simulation never ended where no message uses anything.
TEST_F(ExplainVerb, OneRankHasNothingToExplain) {
  EXPECT_THAT(refusal("explain allreduce --cluster local:1 --graph " + in("g.json")), HasSubstr("local:1"));
  EXPECT_THAT(refusal("simulate --cluster lab:1x1gbit+1x1gbit/server --graph " + in("g.json")),
              HasSubstr("2 or more"));
}

TEST_F(ExplainVerb, TrialsOfALogCalibrate) {
  const std::string data = " --data " + in("trials.jsonl");
  const Json j = Json::parse(run("explain trial:0 --json --domain small@lab:4x1gbit" + data));
  EXPECT_THAT(j.at("calibration").get<std::string>(), HasSubstr("of small@lab:4x1gbit"));
  EXPECT_TRUE(j.at("measured_s").is_number());
  EXPECT_EQ(Json::parse(run("simulate --json --model other" + data)).at("cluster"), "lab:4x1gbit");
  EXPECT_THAT(refusal("explain ps" + data), HasSubstr("--domain"));
  EXPECT_THAT(refusal("explain ps --domain nosuch" + data), HasSubstr("other@lab:4x1gbit"));
  EXPECT_THAT(refusal("explain trial:99 --domain small@lab:4x1gbit" + data), HasSubstr("trial:99"));
  EXPECT_THAT(refusal("explain trial:x" + data), HasSubstr("trial:N"));
}

TEST_F(ExplainVerb, BadInput) {
  const std::string here = " --cluster lab:4x1gbit --graph " + in("g.json");
  EXPECT_THAT(refusal("explain nosuch" + here), HasSubstr("ps-lb"));
  EXPECT_THAT(refusal("explain ps --against nosuch" + here), HasSubstr("ps-lb"));
  EXPECT_THAT(refusal("simulate ps nosuch" + here), HasSubstr("nosuch"));
  EXPECT_THAT(refusal("explain ps --graph " + in("g.json")), HasSubstr("--cluster"));
  EXPECT_THAT(refusal("explain ps --cluster lab:4x1gbit"), HasSubstr("--model"));
  EXPECT_THAT(refusal("explain trial:1" + here), HasSubstr("--data"));

  graph::Graph another = dataset::testing::small_graph("another");
  another.variables[1].name = "conv.weight";
  strategy::save(strategy::build("ps", another, cluster::parse("lab:4x1gbit")), folder_ / "s.json");
  EXPECT_THAT(refusal("explain " + in("s.json") + here), HasSubstr("conv.weight"));
  EXPECT_THAT(refusal("simulate " + in("s.json") + here), HasSubstr("another model"));
}

// What the shape of PipeDream's "15-1" says, of four layers.
TEST_F(ExplainVerb, AShapeIsDrawnWithoutAProfile) {
  const std::string shape =
      " --model four --cluster lab:3x1gbit --global-batch 10 --shape '0-1@0*.2,1-2*.4 2-3@0 m=5'";
  EXPECT_EQ(
      run("explain allreduce" + shape),
      "four on lab:3x1gbit, strategy allreduce: 10 examples per update, 5 micro-batches of 2\n"
      "shape: 0-1@0*0.2,1-2*0.4 2-3@0 m=5\n"
      "\n"
      "  host        rank  layers  0-1     2-3\n"
      "  198.18.0.1     0          20%     all\n"
      "  198.18.0.2     1          40%\n"
      "  198.18.0.3     2          40%\n"
      "\n"
      "  rank  parameters  computes per update\n"
      "     0      4.1 kB  layers 0-1: 2 examples in 1 micro-batch; layers 2-3: 10 examples in 5 "
      "micro-batches\n"
      "     1      4.1 kB  layers 0-1: 4 examples in 2 micro-batches\n"
      "     2      4.1 kB  layers 0-1: 4 examples in 2 micro-batches\n"
      "\n"
      "  passes (F0/1: forward of micro-batch 0 through cell 1; B: backward; R: backward that recomputes)\n"
      "     0 | F2/0 F0/1 R0/1 F1/1 R1/1 F2/1 R2/1 B2/0 F3/1 R3/1 F4/1 B4/1\n"
      "     1 | F0/0 F3/0 R0/0 B3/0\n"
      "     2 | F1/0 F4/0 R1/0 B4/0\n"
      "\n"
      "  gradients are synchronized\n"
      "  layers 0-1, 3 (4.1 kB, 2 variables): ranks 0-2\n"
      "  layer 2 (20 B, 1 variable): rank 0 alone, nothing is synchronized\n"
      "\n"
      "  no step time: --graph FILE with times of the layers is needed\n");
  const Json j = Json::parse(run("explain ps --json" + shape));
  EXPECT_EQ(j.at("global_batch"), 10);
  EXPECT_EQ(j.at("shape"), "0-1@0*0.2,1-2*0.4 2-3@0 m=5");
  EXPECT_EQ(j["layers"][3], Json({{"name", "out"}, {"parameter_bytes", 4000}}));
  EXPECT_EQ(j["micro_batches"][4], Json({{"begin", 8}, {"examples", 2}}));
  EXPECT_EQ(j["ranks"][1]["parameter_bytes"], 4100);
  EXPECT_EQ(j["ranks"][1]["cells"][0]["examples"], 4);
  EXPECT_EQ(j["ranks"][0]["cells"][1]["micro_batches"].size(), 5u);
  EXPECT_EQ(j["ranks"][0]["passes"].size(), 12u);
  EXPECT_EQ(j["synchronized"][0]["ranks"], Json({0, 1, 2}));
  EXPECT_TRUE(j.at("simulated").is_null());
}

TEST_F(ExplainVerb, AStrategyFileMayHaveTheShape) {
  write_file_atomically(folder_ / "s.json",
                        R"({"shape": {"cells": [{"begin": 0, "end": 4, "ranks": [1, 0]}]}})");
  const std::string with = " --model four --cluster local:3 --batch-size 4";
  const std::string text = run("explain " + in("s.json") + with);
  EXPECT_THAT(text, HasSubstr("12 examples per update, 2 micro-batches of 6"));
  EXPECT_THAT(text, HasSubstr("2         0 B  nothing: the shape does not use it"));
  EXPECT_THAT(run("explain " + in("s.json") + " --shape @2" + with), HasSubstr("rank 2 alone"));

  graph::Graph another = dataset::testing::small_graph("another");
  strategy::save(strategy::build("ps", another, cluster::parse("local:3")), folder_ / "s.json");
  EXPECT_THAT(refusal("explain " + in("s.json") + " --shape @2" + with),
              HasSubstr("strategy is for another model"));
}

TEST_F(ExplainVerb, AShapeOfAStoredGraphIsOfItsLayers) {
  graph::Graph graph = dataset::testing::small_graph("small");
  const std::string with = " --cluster local:2 --graph " + in("layers.json") + " --shape ";
  graph::save(graph, folder_ / "layers.json");
  EXPECT_THAT(run("explain ps" + with + "@0,1"), HasSubstr(": ranks 0-1"));
  EXPECT_THAT(refusal("explain ps" + with + "'0@0 1@1'"), HasSubstr("allowed: 1, the model's layers"));
  const int last = static_cast<int>(graph.variables.size()) - 1;
  graph::Layer first{"first", {}}, second{"second", {last}};
  for (int v = 0; v <= last; ++v) first.variables.push_back(v);
  graph.layers = {first, second};
  graph::save(graph, folder_ / "layers.json");
  const Json j = Json::parse(run("explain ps --json" + with + "'0@0 1@0,1'"));
  EXPECT_EQ(j["layers"][1]["name"], "second");
  EXPECT_EQ(j["synchronized"].size(), 2u);  // the last variable is tied
  EXPECT_EQ(j["ranks"][1]["parameter_bytes"], j["layers"][1]["parameter_bytes"]);
}

TEST_F(ExplainVerb, AShapeOfAProfiledGraphIsSimulated) {
  graph::Graph graph = dataset::testing::small_graph("small");
  graph.layers = {{"first", {0}, {{1, 1, 2}}}, {"second", {1}, {{1, 2, 4}}}};
  graph::save(graph, folder_ / "layers.json");
  const std::string with = " --cluster local:2 --global-batch 3 --graph " + in("layers.json") + " --shape ";
  EXPECT_THAT(run("explain ps" + with + "'@1 remat=never'"), HasSubstr("simulated: 27.00 s per update"));
  const Json j = Json::parse(run("explain allreduce --json" + with + "'0@0 1@1 m=3 remat=never'"));
  EXPECT_NEAR(j["simulated"]["seconds"], 1 + 3 * 6 + 2, 0.01);  // F on rank 0, all on rank 1, B on rank 0
  EXPECT_TRUE(j["missing_memory"].is_null());
  auto d = cluster::parse("local:2");
  d.hosts[0].memory_gib = 1e-9;
  write_file_atomically(folder_ / "d.yml", cluster::to_yaml(d));
  EXPECT_THAT(run("explain ps --cluster " + in("d.yml") + " --graph " + in("layers.json") + " --shape @1"),
              HasSubstr("too little memory: host "));
}

TEST_F(ExplainVerb, AShapeOfManyRanksFitsAScreen) {
  const std::string text = run("explain ps --model four --cluster local:64 --shape '@0-63 m=640'");
  EXPECT_THAT(text, HasSubstr("and 48 more ranks"));
  EXPECT_THAT(text, HasSubstr("... 6 more"));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 64);
}

TEST_F(ExplainVerb, AShapeThatDoesNotFitIsRefusedInOneLine) {
  const std::string model = " --model four", cluster = " --cluster local:2", shape = " --shape '@0,1 m=4'";
  EXPECT_THAT(refusal("explain ps" + shape + cluster), HasSubstr("--model"));
  EXPECT_THAT(refusal("explain ps" + shape + model), HasSubstr("--cluster"));
  EXPECT_THAT(refusal("explain ps" + shape + cluster + " --data " + in("trials.jsonl")), HasSubstr("--data"));
  EXPECT_THAT(refusal("explain ps" + shape + cluster + model + " --against ddp"), HasSubstr("--against"));
  EXPECT_THAT(refusal("explain trial:1" + shape + cluster + model), HasSubstr("trial:1"));
  EXPECT_THAT(refusal("explain nosuch" + shape + cluster + model), HasSubstr("ps-lb"));
  EXPECT_THAT(refusal("explain ps" + shape + cluster + model + " --global-batch 3"),
              HasSubstr("allowed: at most 3"));
  EXPECT_THAT(refusal("explain ps --shape 0-4@0" + cluster + model), HasSubstr("the model's layers"));
  EXPECT_THAT(refusal("explain ps --shape @0,2" + cluster + model), HasSubstr("not in the cluster"));
  EXPECT_THAT(refusal("explain ps --global-batch 3" + cluster + model), HasSubstr("with --shape"));
}

TEST_F(ExplainVerb, SimulateListsAllBuildersFastestFirst) {
  const Json j = Json::parse(run("simulate --json --cluster lab:1x10gbit+3x1gbit --graph " + in("g.json")));
  const auto& rows = j.at("strategies");
  ASSERT_EQ(rows.size(), strategy::names().size());
  for (size_t i = 1; i < rows.size(); ++i) EXPECT_LE(rows[i - 1]["seconds"], rows[i]["seconds"]);
  for (const auto& row : rows) EXPECT_GE(row["link_bound_s"], j["link_bound_best_s"]);
}

TEST_F(ExplainVerb, SimulateTakesAShape) {
  graph::Graph graph = dataset::testing::small_graph("small");
  graph.layers = {{"first", {0}, {{1, 1, 2}}}, {"second", {1}, {{1, 2, 4}}}};
  graph::save(graph, folder_ / "layers.json");
  const std::string with = " --cluster local:2 --graph " + in("layers.json");
  const std::string shape = with + " --global-batch 3 --shape '0@0 1@1 m=3 remat=never'";
  const Json j = Json::parse(run("simulate allreduce ps --json" + shape));
  ASSERT_EQ(j["strategies"].size(), 2u);
  EXPECT_NEAR(j["strategies"][0]["seconds"], 1 + 3 * 6 + 2, 0.01);  // F on rank 0, all on rank 1, B on rank 0
  EXPECT_EQ(j.at("global_batch"), 3);
  EXPECT_THAT(run("simulate ps" + shape),
              HasSubstr("3 examples per update in shape 0@0 1@1 m=3 remat=never"));
  EXPECT_NEAR(
      Json::parse(run("simulate ps --json" + with + " --shape '@1 remat=never'"))["strategies"][0]["seconds"],
      2 * 8 * 9, 0.1);  // the profiled batch on each of 2 ranks
  EXPECT_THAT(refusal("simulate ps --global-batch 3" + with), HasSubstr("with --shape"));
  EXPECT_THAT(refusal("simulate ps" + with + " --shape @2"), HasSubstr("not in the cluster"));
  EXPECT_THAT(refusal("simulate ps --cluster local:2 --graph " + in("g.json") + " --shape @1"),
              HasSubstr("layer"));
}

TEST_F(ExplainVerb, SimulateTakesTheShapeOfAStrategyFile) {
  graph::Graph graph = dataset::testing::small_graph("small");
  graph.layers = {{"first", {0}, {{1, 1, 2}}}, {"second", {1}, {{1, 2, 4}}}};
  graph::save(graph, folder_ / "layers.json");
  auto strategy = strategy::build("ps", graph, cluster::parse("local:2"));
  strategy.shape = strategy::data_parallel(2, {0});
  strategy::save(strategy, folder_ / "s.json");
  const std::string text =
      "simulate " + in("s.json") + " --json --cluster local:2 --graph " + in("layers.json");
  EXPECT_NEAR(Json::parse(run(text))["strategies"][0]["seconds"], 2 * 8 * 9, 0.1);
  EXPECT_LT(Json::parse(run(text + " --shape @0,1"))["strategies"][0]["seconds"], 8 * 9 + 1);
}

// What a viewer needs: on one thread spans do not overlap, and every thread has its track's name.
TEST_F(ExplainVerb, TraceCanBeDrawn) {
  run("simulate byteps ps --cluster lab:4x1gbit --graph " + in("g.json") + " --trace " + in("trace.json"));
  const Json trace = Json::parse(read_file(folder_ / "trace.json"));
  std::map<std::pair<int, int>, double> end;
  std::map<std::pair<int, int>, std::string> names;
  std::set<std::string> tracks;
  for (const auto& event : trace.at("traceEvents")) {
    const std::pair<int, int> thread{event["pid"], event["tid"]};
    if (event["ph"] == "M") {
      names[thread] = event["args"]["name"];
      continue;
    }
    EXPECT_GE(event["ts"].get<double>(), end[thread] - 1e-5);
    EXPECT_GE(event["dur"].get<double>(), 0);
    end[thread] = event["ts"].get<double>() + event["dur"].get<double>();
    ASSERT_TRUE(names.count(thread));
    tracks.insert(names[thread]);
  }
  EXPECT_TRUE(tracks.count("backward") && tracks.count("forward") && tracks.count("critical path"));
}

}  // namespace
}  // namespace entrain::app
