#include "strategies/tune_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace entrain::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

dataset::Trial trial(const std::string& id, double seconds, const std::string& origin) {
  dataset::Trial t;
  t.strategy.id = id;
  t.strategy.variables = {{id, std::nullopt, {}}};
  t.seconds = {seconds};
  t.origin = origin;
  return t;
}

dataset::Domain domain(const std::string& cluster, double compute_s) {
  dataset::Domain d;
  graph::Variable v;
  v.name = "w";
  v.shape = {1000};
  v.backward_s = compute_s;
  d.graph.variables = {v};
  d.cluster = cluster::parse(cluster);
  return d;
}

nlohmann::json report(const std::vector<dataset::Trial>& trials, const dataset::Domain& d) {
  return tune_report(tuner::summarize(trials), d,
                     {"bert-small", d.cluster.name, "own", 2, 1e6, "t/best.json", false});
}

const dataset::Domain kLab = domain("lab:4x1gbit", 1e-6);

// A builder that looked fast at the start and was slow in the final round.
const std::vector<dataset::Trial> kTwoRounds = {
    trial("parallax", 0.520, "builder"), trial("byteps", 0.523, "builder"), trial("ddp", 0.600, "builder"),
    trial("ps", 0.530, "builder"),       trial("a", 0.9, "random"),         trial("a", 0.9, "confirm"),
    trial("parallax", 0.740, "confirm"), trial("byteps", 0.800, "confirm"), trial("ddp", 0.888, "confirm")};

TEST(TuneReport, ComparesWithDdpOfTheSameRound) {
  const auto j = report(kTwoRounds, kLab);
  EXPECT_EQ(j["best_baseline"], "parallax");
  EXPECT_DOUBLE_EQ(j["speed_vs_ddp"].get<double>(), 0.888 / 0.740);
  EXPECT_EQ(j["baselines"][0]["round"], "final");
  EXPECT_EQ(j["baselines"][3]["name"], "ps");
  EXPECT_EQ(j["baselines"][3]["round"], "first look");
  EXPECT_DOUBLE_EQ(j["baselines"][3]["speed_vs_ddp"].get<double>(), 0.600 / 0.530);
}

TEST(TuneReport, TheTableSaysWhichRoundATimeIsFrom) {
  const std::string text = tune_text(report(kTwoRounds, kLab));
  EXPECT_THAT(text, HasSubstr("  tuned: parallax itself                         740 ms     1.20x\n"));
  EXPECT_THAT(text, HasSubstr("  ps                                             530 ms     1.13x\n"));
  EXPECT_LT(text.find("final round"), text.find("tuned: parallax"));
  EXPECT_LT(text.find("\n  ddp "), text.find("first look only"));
  EXPECT_LT(text.find("first look only"), text.find("\n  ps "));
}

TEST(TuneReport, ClaimsNoWinnerWithinNoise) {
  std::vector<dataset::Trial> trials = kTwoRounds;
  trials.push_back(trial("parallax", 0.820, "confirm"));
  EXPECT_THAT(tune_text(report(trials, kLab)),
              HasSubstr("No clear winner: parallax, byteps within noise (spread 11%)"));
  EXPECT_THAT(tune_text(report(kTwoRounds, kLab)), Not(HasSubstr("No clear winner")));
}

TEST(TuneReport, NamesNoLinksWhereThereAreNone) {
  const std::string text = tune_text(report(kTwoRounds, domain("local:4", 0.001)));
  EXPECT_THAT(text, HasSubstr("All ranks are on one host"));
  EXPECT_THAT(text, Not(HasSubstr("no strategy can be faster")));
  EXPECT_THAT(tune_text(report(kTwoRounds, kLab)), HasSubstr("no strategy can be faster than"));
}

TEST(TuneReport, ComputingIsNeverSaidToTakeLongerThanTheStep) {
  const std::string text = tune_text(report(kTwoRounds, domain("lab:4x1gbit", 2.3)));
  EXPECT_THAT(text, HasSubstr("synchronization is not what limits this job"));
  EXPECT_THAT(text, Not(HasSubstr("no strategy can be faster")));
}

TEST(TuneReport, SaysWhereItIsWrittenAndWhatToDoNext) {
  const std::string text = tune_text(report(kTwoRounds, kLab));
  EXPECT_THAT(text, HasSubstr("Written to t: best.json"));
  EXPECT_THAT(text, HasSubstr("entrain train --model bert-small --cluster lab:4x1gbit --batch-size 2 "
                              "--strategy t/best.json\n"));
}

TEST(TuneReport, WithoutDdpThereIsNothingToCompareWith) {
  const auto j = report({trial("ps", 1, "builder"), trial("a", 0.5, "random")}, kLab);
  EXPECT_TRUE(j["speed_vs_ddp"].is_null());
  EXPECT_THAT(tune_text(j), HasSubstr("there was no final round"));
}

}  // namespace
}  // namespace entrain::app
