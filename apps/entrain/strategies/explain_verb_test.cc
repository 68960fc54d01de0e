// `entrain explain` and `entrain simulate`, run in this process on stored graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/dataset/testing.h"
#include "entrain/strategy/stored.h"
#include "graph_verb.h"
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

namespace {

using dataset::testing::Folder;
using ::testing::HasSubstr;
using Json = nlohmann::json;

std::string run(const std::string& arguments) {
  CLI::App app;
  Action action;
  explain_verb::add_explain(app, action);
  simulate_verb::add_simulate(app, action);
  app.parse(arguments);
  ::testing::internal::CaptureStdout();
  try {
    EXPECT_EQ(action(), 0);
  } catch (...) {
    ::testing::internal::GetCapturedStdout();
    throw;
  }
  std::fflush(stdout);
  return ::testing::internal::GetCapturedStdout();
}

std::string refusal(const std::string& arguments) {
  try {
    run(arguments);
  } catch (const InputError& error) {
    return error.what();
  }
  return "was accepted";
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

TEST_F(ExplainVerb, SimulateListsAllBuildersFastestFirst) {
  const Json j = Json::parse(run("simulate --json --cluster lab:1x10gbit+3x1gbit --graph " + in("g.json")));
  const auto& rows = j.at("strategies");
  ASSERT_EQ(rows.size(), strategy::names().size());
  for (size_t i = 1; i < rows.size(); ++i) EXPECT_LE(rows[i - 1]["seconds"], rows[i]["seconds"]);
  for (const auto& row : rows) EXPECT_GE(row["link_bound_s"], j["link_bound_best_s"]);
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
