#include "entrain/simulator/evaluation/evaluation.h"

#include <gmock/gmock.h>

#include <cmath>

#include "entrain/base/error.h"
#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/simulator/boosted/boosted.h"
#include "entrain/simulator/testing.h"

namespace entrain::simulator {
namespace {

// Servers are slower than the event simulation thinks.
testing::Truth truth(const graph::Graph& g, const cluster::Cluster& c) {
  return [event = std::make_shared<EventSimulation>(g, c, Calibration{})](const strategy::Strategy& s) {
    double servers = 0;
    for (const auto& v : s.variables) {
      for (const auto& p : v.parts) servers += p.synchronizer.index() == 0 ? 1.0 : 0.0;
    }
    return event->estimate(s).seconds * (1 + 0.1 * servers);
  };
}

dataset::Dataset three_domains() {
  dataset::Dataset data;
  data.domains = {testing::make_domain("lab:3x1gbit", 5, 60, 1, truth),
                  testing::make_domain("lab:1x10gbit+2x1gbit", 5, 60, 2, truth),
                  testing::make_domain("lab:4x1gbit", 5, 60, 3, truth)};
  return data;
}

EvaluationOptions quick() {
  EvaluationOptions options;
  options.seeds = 2;
  options.learn.epochs = 60;
  options.make_ranker = [](const std::string& name) -> std::unique_ptr<Ranker> {
    if (name != "boosted") bad_input("ranker {} is unknown", name);
    return std::make_unique<Boosted>();
  };
  return options;
}

TEST(Evaluation, EverySimulatorInEveryDomain) {
  const auto data = three_domains();
  const Evaluation e =
      evaluate(schools_of(data), {"published-sum", "event", "boosted", "boosted+others"}, quick());
  ASSERT_EQ(e.cells.size(), 12u);
  for (const Cell& cell : e.cells) EXPECT_EQ(cell.accuracy.size(), 2u);
  EXPECT_GT(e.overall("boosted").mean, e.overall("event").mean);
  EXPECT_GT(e.overall("boosted+others").mean, e.overall("event").mean);
  EXPECT_GT(e.overall("event").mean, 0.6);
  ASSERT_EQ(e.event_error.size(), 3u);
  EXPECT_GT(e.event_error[0].second, 0.1);
  EXPECT_THROW(evaluate(schools_of(data), {"oracle"}, quick()), InputError);
}

TEST(Evaluation, RepeatsAreWhatTheMeasurementCanTell) {
  dataset::Dataset data = three_domains();
  for (auto& trial : data.domains[0].trials) trial.seconds = {1.0 * trial.number, 1.0 * trial.number};
  data.domains[1].trials[3].origin = "repeat";
  data.domains[1].trials[4].strategy.id = "ps";  // calibrates
  data.domains[1].trials[4].origin = "builder";
  const auto schools = schools_of(data);
  EXPECT_EQ(schools[1].trials.size(), 58u);
  const Evaluation e = evaluate(schools, {"repeats"}, quick());
  EXPECT_EQ(e.cells[0].summary().mean, 1);
  EXPECT_TRUE(std::isnan(e.cells[1].summary().mean));  // one step a trial: nothing to compare
}

TEST(Transfer, WhatIsLearntElsewhereHelpsHere) {
  const auto data = three_domains();
  const auto cells = transfer(schools_of(data), "boosted",
                              {Source::kNothing, Source::kOthers, Source::kOtherModels}, 10, quick());
  ASSERT_EQ(cells.size(), 3u * 3 * 2);
  double untrained = 0, zero_shot = 0, few = 0;
  for (const auto& cell : cells) {
    const bool no_source = cell.source == name_of(Source::kOtherModels);  // there is one model only
    EXPECT_EQ(std::isnan(cell.summary().mean), no_source);
    if (cell.source == name_of(Source::kNothing) && cell.target_trials == 0) untrained += cell.summary().mean;
    if (cell.source != name_of(Source::kOthers)) continue;
    (cell.target_trials == 0 ? zero_shot : few) += cell.summary().mean;
  }
  EXPECT_GT(zero_shot, untrained);
  EXPECT_GT(few, untrained);
}

TEST(Transfer, MatrixLeavesTheDiagonalOut) {
  EvaluationOptions options = quick();
  options.seeds = 1;
  const auto data = three_domains();
  const auto cells = transfer_matrix(schools_of(data), "boosted", 0, options);
  ASSERT_EQ(cells.size(), 9u);
  for (const auto& cell : cells) EXPECT_EQ(std::isnan(cell.summary().mean), cell.source == cell.target);
}

}  // namespace
}  // namespace entrain::simulator
