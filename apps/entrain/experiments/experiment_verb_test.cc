// `entrain experiment ranking|transfer|search`, run in this process with the rankers that need no torch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/dataset/testing.h"
#include "entrain/simulator/boosted/boosted.h"
#include "entrain/simulator/learned/registry.h"
#include "entrain/strategy/sampler/sampler.h"
#include "entrain/tuner/simulated_cluster.h"
#include "experiments/experiment_table.h"
#include "support/verb_output.h"
#include "verbs.h"

// Stand-ins for learned/registry.cc, which brings torch along.
namespace entrain::simulator {

std::span<const std::string_view> ranker_names() {
  static constexpr std::string_view kNames[] = {"boosted"};
  return kNames;
}

std::unique_ptr<Ranker> make_ranker(const std::string& name) {
  if (name != "boosted") bad_input("ranker \"{}\" is unknown; allowed: boosted", name);
  return std::make_unique<Boosted>();
}

}  // namespace entrain::simulator

namespace entrain::app {

namespace experiment_verb {
void add_experiment(CLI::App& app, Action& action);
}

namespace {

using dataset::testing::Folder;
using ::testing::HasSubstr;
using Json = nlohmann::json;

std::string run(const std::string& arguments) {
  const auto output = testing::run_verb({experiment_verb::add_experiment}, "experiment " + arguments);
  EXPECT_EQ(output.code, 0);
  return output.text;
}

int count(const std::string& text, const std::string& wanted) {
  int found = 0;
  for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) ++found;
  return found;
}

// Random strategies with the times of a simulated cluster.
dataset::Domain measured(const std::string& model, const std::string& cluster) {
  dataset::Domain domain = dataset::testing::small_domain(model, cluster);
  domain.trials.clear();
  const strategy::Sampler sampler(domain.graph, domain.cluster, {});
  tuner::SimulatedCluster runner(domain.graph, domain.cluster, {});
  strategy::Rng rng(1);
  for (int i = 0; i < 40; ++i) {
    dataset::Trial trial;
    trial.number = i;
    trial.strategy = sampler.sample(rng);
    trial.seconds = runner.run(trial.strategy, 1000).seconds;
    trial.origin = "random";
    domain.trials.push_back(std::move(trial));
  }
  return domain;
}

class ExperimentVerb : public ::testing::Test {
 protected:
  ExperimentVerb() {
    dataset::save({{measured("ncf", "lab:4x1gbit"), measured("ncf", "lab:1x10gbit+3x1gbit"),
                    measured("vgg16", "lab:4x1gbit")}},
                  folder_ / "data.jsonl.gz");
  }
  std::string in(const std::string& name) const { return (folder_ / name).string(); }

  Folder folder_;
};

TEST_F(ExperimentVerb, RankingReportsEverySimulatorByModelClusterAndDomain) {
  const std::string text =
      run("ranking " + in("data.jsonl.gz") + " --epochs 20 --seeds 3 --out " + in("out"));
  EXPECT_THAT(text, HasSubstr("published-sum"));
  EXPECT_THAT(text, HasSubstr("±"));
  const Json json = Json::parse(read_file(in("out/ranking.json")));
  EXPECT_EQ(json.at("seeds"), 3);
  EXPECT_EQ(json.at("domains").size(), 6u * 3u) << "simulators x domains";
  EXPECT_EQ(json.at("domains")[0].at("by_seed").size(), 3u);
  EXPECT_GT(json.at("overall").at("event").at("mean"), 0.6) << "the cluster is that simulation, disturbed";
  EXPECT_EQ(json.at("models").size(), 2u);
  EXPECT_EQ(count(read_file(in("out/ranking-models.svg")), "class=\"bar\""), 6 * (2 + 1)) << "and the mean";
  EXPECT_EQ(count(read_file(in("out/ranking-clusters.svg")), "class=\"bar\""), 6 * (2 + 1));
  EXPECT_EQ(count(read_file(in("out/ranking-domains.svg")), "class=\"cell\""), 6 * 3);
}

TEST_F(ExperimentVerb, TransferReportsSourcesAndTheMatrix) {
  run("transfer " + in("data.jsonl.gz") + " --epochs 10 --target-trials 5 --out " + in("out"));
  const Json json = Json::parse(read_file(in("out/transfer.json")));
  EXPECT_EQ(json.at("ranker"), "boosted");
  EXPECT_TRUE(json.at("overall").contains("all others"));
  EXPECT_TRUE(json.at("overall").at("all others").contains("5 target trials"));
  EXPECT_EQ(json.at("matrices").at("transfer-domains").size(), 3u);
  EXPECT_TRUE(json.at("matrices").at("transfer-models").at("ncf").at("vgg16").at("mean").is_number());
  EXPECT_EQ(count(read_file(in("out/transfer-domains.svg")), "class=\"cell\""), 6) << "all but the diagonal";
}

TEST_F(ExperimentVerb, SearchComparesModesOnASimulatedCluster) {
  const std::string text =
      run("search " + in("data.jsonl.gz") +
          " --only vgg16 --modes own,published,random --ranker boosted --epochs 10 --trials 12 "
          "--evaluations 300 --seeds 2 --out " +
          in("out"));
  EXPECT_THAT(text, HasSubstr("vgg16@lab:4x1gbit"));
  EXPECT_THAT(text, HasSubstr("Trials were simulated"));
  const Json json = Json::parse(read_file(in("out/search.json")));
  const Json& own = json.at("domains").at("vgg16@lab:4x1gbit").at("own");
  EXPECT_EQ(own.at("improvement").at("mean").size(), 12u);
  EXPECT_GE(own.at("speedup").at("mean"), 1);
  EXPECT_EQ(count(read_file(in("out/improvement-vgg16-lab-4x1gbit.svg")), "class=\"line\""), 3);
  EXPECT_EQ(count(read_file(in("out/hit-rate-vgg16-lab-4x1gbit.svg")), "class=\"band\""), 3);
}

TEST_F(ExperimentVerb, SearchDrawsRecordedTunes) {
  dataset::Domain domain = dataset::testing::small_domain("ncf", "lab:4x1gbit");
  dataset::Trial trial = domain.trials[0];
  trial.origin = "mutation";
  for (const double seconds : {0.05, 0.02, 0.03}) {
    trial.number = static_cast<int>(domain.trials.size());
    trial.seconds = {seconds};
    domain.trials.push_back(trial);
  }
  dataset::save({{domain}}, folder_ / "a.jsonl");
  dataset::save({{domain}}, folder_ / "b.jsonl");
  run("search --from own=" + in("a.jsonl") + " --from own=" + in("b.jsonl") + " --out " + in("out"));
  const Json json = Json::parse(read_file(in("out/search.json")));
  EXPECT_EQ(json.at("trials_are"), "real");
  EXPECT_EQ(json.at("domains").at("ncf@lab:4x1gbit").at("own").at("tunes"), 2);
}

TEST_F(ExperimentVerb, BadInputIsNamed) {
  EXPECT_THROW(run("ranking " + in("data.jsonl.gz") + " --simulators oracle --out " + in("out")), InputError);
  EXPECT_THROW(run("ranking " + in("data.jsonl.gz") + " --only bert --out " + in("out")), InputError);
  EXPECT_THROW(run("transfer " + in("data.jsonl.gz") + " --ranker x --out " + in("out")), InputError);
  EXPECT_THROW(run("search --out " + in("out")), InputError);
  EXPECT_THROW(run("search --from a.jsonl --out " + in("out")), InputError);
  EXPECT_THROW(run("search " + in("data.jsonl.gz") + " --modes best --out " + in("out")), InputError);
}

TEST(ExperimentTable, MeansAreOverThingsThenOverSeeds) {
  SeedMeans means;
  means.add({1, 2, NAN});
  means.add({3, 4, NAN});
  EXPECT_DOUBLE_EQ(means.summary().mean, 2.5);
  EXPECT_NEAR(means.summary().std, std::sqrt(0.5), 1e-12);
  EXPECT_EQ(shown(SeedMeans().summary()), "-");
  EXPECT_EQ(shown({0.9, 0.012}, 2), "0.90 ± 0.01");
  EXPECT_EQ(table("a", {"±b"}, {{"long", {"1"}}}), "a     ±b\nlong   1\n");
  EXPECT_EQ(file_name("vgg16@lab:1x10gbit+3x1gbit/server"), "vgg16-lab-1x10gbit-3x1gbit-server");
}

}  // namespace
}  // namespace entrain::app
