// Curves of several searches, simulated or from logs of real tunes.
#include "entrain/tuner/search_curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/dataset/testing.h"

namespace entrain::tuner {
namespace {

using dataset::testing::Folder;
using dataset::testing::small_domain;
using ::testing::ElementsAre;

SearchRun run(const std::string& mode, std::vector<double> improvements, double speedup) {
  SearchRun r{mode, "d", 0, {}};
  r.result.speedup = speedup;
  for (const double i : improvements) {
    r.result.curve.push_back({static_cast<int>(r.result.curve.size()) + 1, 1 / i, i, i > 1 ? 1.0 : 0.0});
  }
  return r;
}

TEST(SearchCurves, AreMeansOverTheRunsOfAModeAsLongAsTheShortest) {
  const auto all =
      curves({run("own", {1, 1.2, 1.4}, 1.4), run("random", {0.5}, 1), run("own", {1, 1.4}, 1.2)});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].mode, "own");
  EXPECT_EQ(all[0].runs, 2);
  EXPECT_THAT(all[0].k, ElementsAre(1, 2));
  EXPECT_DOUBLE_EQ(all[0].improvement[1].mean, 1.3);
  EXPECT_NEAR(all[0].improvement[1].std, 0.1414, 1e-4);
  EXPECT_DOUBLE_EQ(all[0].hit_rate[1].mean, 1);
  EXPECT_DOUBLE_EQ(all[0].speedup.mean, 1.3);
  EXPECT_EQ(all[1].runs, 1);
  EXPECT_DOUBLE_EQ(all[1].speedup.std, 0);
}

TEST(SearchCurves, SimulatedSearchesRunEveryModeAndSeedAndRepeatThemselves) {
  const dataset::Domain domain = small_domain("ncf", "lab:1x10gbit+3x1gbit");
  SearchComparison comparison;
  comparison.modes = {Mode::kOwn, Mode::kRandom};
  comparison.trials = 8;
  comparison.seeds = 2;
  comparison.search.evaluations = 300;
  int told = 0;
  comparison.progress = [&](int done, int total, const std::string&) {
    EXPECT_LE(done, total);
    ++told;
  };
  const auto runs = simulate_searches(domain, comparison);
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(told, 5);
  for (const SearchRun& r : runs) {
    EXPECT_EQ(r.result.curve.size(), 8u);
    EXPECT_GE(r.result.speedup, 1) << "never worse than the best builder";
  }
  const auto again = simulate_searches(domain, comparison);
  for (size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(again[i].result.best_s, runs[i].result.best_s);
  EXPECT_NE(runs[0].result.best_s, runs[1].result.best_s) << "seeds differ";
}

TEST(SearchCurves, LogsOfRealTunesAreRead) {
  const Folder folder;
  dataset::Domain domain = small_domain("ncf", "lab:4x1gbit");
  dataset::Trial trial = domain.trials[0];
  trial.origin = "mutation";
  for (const double seconds : {0.05, 0.01}) {
    trial.number = static_cast<int>(domain.trials.size());
    trial.seconds = {seconds};
    domain.trials.push_back(trial);
  }
  dataset::Domain empty = small_domain("vgg16", "lab:4x1gbit");
  empty.trials.clear();
  dataset::save({{domain, empty}}, folder / "tune.jsonl");
  const auto runs = searches_from_log("own", folder / "tune.jsonl");
  ASSERT_EQ(runs.size(), 1u) << "nothing was tried in the other domain";
  EXPECT_EQ(runs[0].domain, "ncf@lab:4x1gbit");
  ASSERT_EQ(runs[0].result.curve.size(), 2u);
  const double baseline = 0.1 / 2.9;
  EXPECT_NEAR(runs[0].result.curve[0].improvement, baseline / 0.05, 1e-9);
  EXPECT_NEAR(runs[0].result.curve[1].improvement, baseline / 0.01, 1e-9);
  EXPECT_NEAR(runs[0].result.curve[1].hit_rate, 0.5, 1e-9);
}

}  // namespace
}  // namespace entrain::tuner
