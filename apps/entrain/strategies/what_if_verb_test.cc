// `entrain what-if`, run in this process on stored graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "entrain/base/files.h"
#include "entrain/dataset/testing.h"
#include "graph_verb.h"
#include "model_outline.h"
#include "strategies/vary.h"
#include "strategies/what_if_report.h"
#include "support/verb_output.h"
#include "verbs.h"

namespace entrain::app {

namespace what_if_verb {
void add_what_if(CLI::App& app, Action& action);
}

namespace {

using dataset::testing::Folder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// Two layers of 1 s forward and 2 s backward per example, with 4 bytes of parameters, or `megabytes`.
graph::Graph two_layers(const std::string& model, int64_t megabytes = 0) {
  graph::Graph g = dataset::testing::small_graph(model);
  g.batch_size = 4;
  g.variables = {dataset::testing::variable("a", {1 + megabytes * 250'000}, 1),
                 dataset::testing::variable("b", {1}, 0)};
  g.edges = {{0, 1}};
  g.layers = {{"first", {0}, {{1, 1, 2}, {8, 8, 16}}, 1000, 1000},
              {"second", {1}, {{1, 1, 2}, {8, 8, 16}}, 10, 10}};
  return g;
}

}  // namespace

graph::Graph profile_model(const ProfileRequest& request) {  // the real one brings torch along
  graph::Graph g = two_layers(request.model);
  g.batch_size = request.batch_size;
  return g;
}
ModelOutline outline_model(const std::string& model) { return {model, {}, {}}; }

namespace {

std::string run(const std::string& arguments) {
  const auto output = testing::run_verb({what_if_verb::add_what_if}, "what-if " + arguments);
  EXPECT_EQ(output.code, 0);
  return output.text;
}

std::string refusal(const std::string& arguments) {
  return testing::refusal_of([&] { run(arguments); });
}

class WhatIfVerb : public ::testing::Test {
 protected:
  WhatIfVerb() { graph::save(two_layers("two"), folder_ / "g.json"); }
  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  std::string here(const std::string& more) const {
    return "--graph " + in("g.json") + " --cluster lab:2x1gbit --evaluations 20 " + more;
  }

  Folder folder_;
};

TEST(Vary, ReadsListsRangesAndRates) {
  const auto axes = axes_of({"hosts=8,1..4,2", "link=10gbit,100mbit", "batch=16..100"});
  EXPECT_THAT(axes.hosts, ElementsAre(1, 2, 3, 4, 8));
  EXPECT_THAT(axes.link_gbit, ElementsAre(0.1, 10));
  EXPECT_THAT(axes.examples, ElementsAre(16, 32, 64, 100));
  EXPECT_THAT(axes_of({"hosts=3..20"}).hosts, ElementsAre(3, 6, 12, 20));
  EXPECT_THAT(axes_of({"hosts=5..5"}).hosts, ElementsAre(5));
}

TEST(Vary, WithoutAnyVariesLinksAndHosts) {
  const auto axes = axes_of({});
  EXPECT_THAT(axes.link_gbit, ElementsAre(0.1, 1, 10));
  EXPECT_THAT(axes.hosts, ElementsAre(1, 2, 4, 8, 16));
  EXPECT_TRUE(axes.examples.empty());
}

TEST_F(WhatIfVerb, HasTheNamesThatScriptsRelyOn) {
  const Json j =
      Json::parse(run(here("--json --vary hosts=1,2,4 --vary link=1gbit,10gbit --global-batch 8")));
  ASSERT_EQ(j.at("points").size(), 6u);
  EXPECT_EQ(j.at("calibration"), "defaults");
  const Json& last = j["points"][5];
  EXPECT_EQ(last.at("hosts"), 4);
  EXPECT_EQ(last.at("slowest_link_gbit"), 10);
  EXPECT_EQ(last.at("global_batch"), 8);
  EXPECT_NEAR(last["best"]["seconds"], 8 * 6 / 4, 0.1);
  EXPECT_NEAR(last["best"]["examples_per_s"], 8 / 12.0, 0.01);
  EXPECT_EQ(last["best"]["shape"], "@0-3 remat=never");
  EXPECT_EQ(last["best"]["hosts_used"], 4);
  EXPECT_NEAR(last["one_host"]["seconds"], 48, 0.1);
  EXPECT_NEAR(last["vs_one_host"], 4, 0.05);
  EXPECT_NEAR(last["data_parallel"]["seconds"], 12, 0.1);
  EXPECT_EQ(last.at("binds"), "compute");
  EXPECT_NEAR(last["bound_s"], 12, 0.01);
  EXPECT_NEAR(last["ratio"], 1, 0.01);
  EXPECT_EQ(j["base"]["hosts"], 2);
  EXPECT_EQ(j["more_hosts"]["hosts"], 4);
  EXPECT_NEAR(j["more_hosts"]["speedup"], 2, 0.02);
  EXPECT_NEAR(j["faster_links"]["speedup"], 1, 0.02);
  EXPECT_EQ(j.at("one_host_best"), Json::array());
}

TEST_F(WhatIfVerb, SaysWhatIsTheBetterBuyInOneSentence) {
  EXPECT_THAT(
      run(here("--vary hosts=2,4 --vary link=10gbit --global-batch 8")),
      HasSubstr("\nfrom 2 hosts on 1 Gbit/s, 8 examples per update: links of 10 Gbit/s give 1.0x, 4 hosts "
                "2.0x: more hosts are the better buy\n"));
  EXPECT_THAT(run(here("--vary hosts=2..3 --global-batch 6")),
              HasSubstr("\nfrom 2 hosts on 1 Gbit/s, 6 examples per update: 3 hosts give 1.5x\n"));
  EXPECT_THAT(run(here("--vary hosts=1 --vary link=1mbit")), Not(HasSubstr("give")));  // nothing is more
}

tuner::WhatIf with_steps(double links, double hosts) {
  tuner::WhatIf found;
  found.base.setting.examples = 32;
  found.base.cluster = cluster::parse("lab:4x100mbit");
  found.faster_links = {{}, 10, 4, links};
  found.more_hosts = {{}, 0.1, 8, hosts};
  return found;
}

TEST(WhatIfReport, TheVerdictIsThatOfTheLargerSpeedUp) {
  EXPECT_EQ(better_buy(with_steps(1.9, 1.1)),
            "from 4 hosts on 100 Mbit/s, 32 examples per update: links of 10 Gbit/s give 1.9x, 8 hosts 1.1x: "
            "faster links are the better buy");
  EXPECT_THAT(better_buy(with_steps(1.2, 1.5)), HasSubstr("1.5x: more hosts are the better buy"));
  EXPECT_THAT(better_buy(with_steps(1.5, 1.51)), HasSubstr(": both help equally"));
  EXPECT_THAT(better_buy(with_steps(1, 1.01)), HasSubstr(": neither helps"));
}

// "1 Gbit/s" is less than "100 Mbit/s" as text.
TEST_F(WhatIfVerb, SlowerLinksComeFirstAndUnequalOnesAreShownFromTheSlowest) {
  tuner::WhatIf found;
  for (const char* cluster : {"lab:2x1gbit", "lab:3x1gbit", "lab:2x100mbit", "lab:1x10gbit+1x500mbit"}) {
    tuner::WhatIfPoint point;
    point.cluster = cluster::parse(cluster);
    point.best = tuner::Choice{{}, 1, 1};
    found.points.push_back(point);
  }
  EXPECT_EQ(
      where_one_host_is_best(found),
      "one host alone is best on 100 Mbit/s with 2 hosts; on 0.5 to 10 Gbit/s with 2 hosts; on 1 Gbit/s with "
      "2, 3 hosts");
}

TEST_F(WhatIfVerb, SaysWhereOneHostAloneIsBest) {
  graph::Graph heavy = two_layers("two", 100);
  for (auto& layer : heavy.layers) layer.output_bytes = layer.kept_bytes = 50'000'000;
  heavy.input_bytes = 50'000'000;
  graph::save(heavy, folder_ / "g.json");
  const std::string vary = "--vary hosts=1,2,4 --vary link=1mbit,100gbit ";
  EXPECT_THAT(run(here(vary + "--global-batch 4")),
              HasSubstr("\none host alone is best on 1 Mbit/s with 2, 4 hosts\n"));
  EXPECT_THAT(
      run(here(vary + "--vary batch=4,8")),
      HasSubstr(
          "best on 1 Mbit/s with 2, 4 hosts and 4 examples; on 1 Mbit/s with 2, 4 hosts and 8 examples"));
  const Json j = Json::parse(run(here(vary + "--json --global-batch 4")));
  EXPECT_EQ(j["one_host_best"][0], Json({{"hosts", 2}, {"slowest_link_gbit", 0.001}, {"global_batch", 4}}));
  EXPECT_THAT(run(here("--vary hosts=2 --vary link=100gbit --global-batch 4")),
              HasSubstr("one host alone is best nowhere here"));
}

TEST_F(WhatIfVerb, ExamplesStayWhenHostsVaryAndTheFirstBatchIsTheBase) {
  const auto batches = [&](const std::string& more) {
    std::vector<int> all;
    const Json j = Json::parse(run(here("--json " + more)));
    for (const Json& point : j["points"]) all.push_back(point["global_batch"]);
    all.push_back(j["base"]["global_batch"]);
    return all;
  };
  EXPECT_THAT(batches("--vary hosts=1,4"), ElementsAre(8, 8, 8));  // 4 profiled on each of 2 ranks
  EXPECT_THAT(batches("--vary hosts=4 --global-batch 12"), ElementsAre(12, 12));
  EXPECT_THAT(batches("--vary batch=2,6"), ElementsAre(2, 6, 2));
  EXPECT_THAT(batches("--vary batch=2,6 --global-batch 12"), ElementsAre(2, 6, 12));
}

TEST_F(WhatIfVerb, TrialsOfALogCalibrate) {
  dataset::Domain domain = dataset::testing::small_domain("two", "lab:2x1gbit");
  domain.graph = two_layers("two");
  dataset::Domain measured = domain;
  measured.trials.clear();
  for (auto trial : domain.trials) {
    trial.strategy = strategy::build(trial.strategy.id, domain.graph, domain.cluster);
    measured.trials.push_back(trial);
  }
  dataset::save({{measured}}, folder_ / "trials.jsonl");
  const std::string text =
      run("--data " + in("trials.jsonl") + " --vary hosts=2 --global-batch 4 --evaluations 20");
  EXPECT_THAT(text,
              AllOf(HasSubstr("two, from lab:2x1gbit"), HasSubstr("measured builders of two@lab:2x1gbit")));
}

TEST_F(WhatIfVerb, AProfiledModelWillDoAndSoWillAClusterOfOneHost) {
  const Json j = Json::parse(run("--model any --batch-size 3 --cluster lab:1x1gbit --vary hosts=2 --json"));
  EXPECT_EQ(j["base"]["global_batch"], 3);
  EXPECT_EQ(j["base"]["best"]["hosts_used"], 1);
  EXPECT_GT(j["more_hosts"]["speedup"], 1.4);
}

TEST_F(WhatIfVerb, CoresThatTheHostsOfALabShareLimitThemAll) {
  const Json j = Json::parse(run(here("--vary hosts=2,4 --global-batch 8 --cores 2 --json")));
  EXPECT_NEAR(j["more_hosts"]["speedup"], 1, 0.02);
  EXPECT_NEAR(j["points"][1]["bound_s"], 8 * 6 / 2, 0.1);
}

TEST_F(WhatIfVerb, WhatIsWrongIsSaidInOneLine) {
  EXPECT_THAT(refusal(here("--vary speed=2")), HasSubstr("--vary is \"speed=2\", allowed: link="));
  EXPECT_THAT(refusal(here("--vary hosts")), HasSubstr("--vary is \"hosts\""));
  EXPECT_THAT(refusal(here("--vary link=fast")),
              AllOf(HasSubstr("--vary link 'fast'"), HasSubstr("300mbit")));
  EXPECT_THAT(refusal(here("--vary hosts=0")),
              HasSubstr("--vary hosts: \"0\", allowed: whole numbers from 1"));
  EXPECT_THAT(refusal(here("--vary hosts=2.5")), HasSubstr("\"2.5\""));
  EXPECT_THAT(refusal(here("--vary hosts=4..2")), HasSubstr("the smaller number first"));
  EXPECT_THAT(refusal(here("--vary batch=")), HasSubstr("--vary batch: \"\""));
  EXPECT_THAT(refusal(here("--vary hosts=1..1024,2000")), HasSubstr("\"2000\""));
  EXPECT_THAT(refusal("--graph " + in("g.json") + " --cluster local:8 --vary hosts=1024"),
              HasSubstr("hosts is 1024, with 8 ranks each; allowed: at most 4096 ranks"));
  EXPECT_THAT(refusal("--cluster lab:2x1gbit"), HasSubstr("the model is missing"));
  EXPECT_THAT(refusal("--graph " + in("g.json")), HasSubstr("--cluster is missing"));
}

TEST_F(WhatIfVerb, AModelWithoutTimedLayersIsRefused) {
  graph::Graph g = two_layers("two");
  g.layers[1].times.clear();
  graph::save(g, folder_ / "g.json");
  EXPECT_THAT(refusal(here("")), AllOf(HasSubstr("layer second has no times"), HasSubstr("--profile-out")));
  g.layers.clear();
  graph::save(g, folder_ / "g.json");
  EXPECT_THAT(refusal(here("")), HasSubstr("two is not a sequence of layers"));
}

TEST_F(WhatIfVerb, WhereNothingFitsInMemoryTheRowSaysSo) {
  auto small = cluster::parse("lab:2x1gbit");
  for (auto& host : small.hosts) host.memory_gib = 1e-9;
  write_file_atomically(folder_ / "d.yml", cluster::to_yaml(small));
  const std::string subject = "--graph " + in("g.json") + " --cluster " + in("d.yml") + " --vary hosts=2,4";
  EXPECT_THAT(run(subject), AllOf(HasSubstr("fits in memory"), Not(HasSubstr("better buy"))));
  const Json j = Json::parse(run(subject + " --json"));
  EXPECT_TRUE(j["points"][1]["best"].is_null());
  EXPECT_TRUE(j["more_hosts"].is_null());
}

}  // namespace
}  // namespace entrain::app
