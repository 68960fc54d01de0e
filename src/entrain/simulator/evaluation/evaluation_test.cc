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
      evaluate(prepared_domains(data), {"published-sum", "event", "boosted", "boosted+others"}, quick());
  ASSERT_EQ(e.cells.size(), 12u);
  for (const DomainAccuracy& cell : e.cells) EXPECT_EQ(cell.accuracy.size(), 2u);
  EXPECT_GT(e.overall("boosted").mean, e.overall("event").mean);
  EXPECT_GT(e.overall("boosted+others").mean, e.overall("event").mean);
  EXPECT_GT(e.overall("event").mean, 0.6);
  ASSERT_EQ(e.event_error.size(), 3u);
  EXPECT_GT(e.event_error[0].second, 0.1);
  EXPECT_THROW(evaluate(prepared_domains(data), {"oracle"}, quick()), InputError);
}

TEST(Evaluation, RepeatsAreWhatTheMeasurementCanTell) {
  dataset::Dataset data = three_domains();
  for (auto& trial : data.domains[0].trials) trial.seconds = {1.0 * trial.number, 1.0 * trial.number};
  data.domains[1].trials[3].origin = "repeat";
  data.domains[1].trials[4].strategy.id = "ps";  // calibrates
  data.domains[1].trials[4].origin = "builder";
  const auto domains = prepared_domains(data);
  EXPECT_EQ(domains[1].trials.size(), 58u);
  const Evaluation e = evaluate(domains, {"repeats"}, quick());
  EXPECT_EQ(e.cells[0].summary().mean, 1);
  EXPECT_TRUE(std::isnan(e.cells[1].summary().mean));  // one step a trial: nothing to compare
  for (auto& trial : data.domains[2].trials) {
    trial.seconds = {1.0 * trial.number, 2.0 * trial.number};
    trial.seconds.pop_back();
  }
  EXPECT_TRUE(std::isnan(evaluate(prepared_domains(data), {"repeats"}, quick()).cells[2].summary().mean));
}

TEST(Transfer, WhatIsLearntElsewhereHelpsHere) {
  const auto data = three_domains();
  const auto cells = transfer(prepared_domains(data), "boosted",
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
  const auto cells = transfer_matrix(prepared_domains(data), "boosted", 0, options);
  ASSERT_EQ(cells.size(), 9u);
  for (const auto& cell : cells) EXPECT_EQ(std::isnan(cell.summary().mean), cell.source == cell.target);
}

// Learns nothing, and tells whose lessons it got before it was asked.
struct Told {
  std::vector<const graph::Graph*> taught;
  const graph::Graph* asked = nullptr;
};
struct Listener : Ranker {
  explicit Listener(std::vector<Told>& to) : told(to) {}
  std::string name() const override { return "listener"; }
  void learn(const std::vector<Lesson>& training, const std::vector<Lesson>&, const LearnOptions&) override {
    for (const Lesson& lesson : training) taught.push_back(lesson.graph);
  }
  std::vector<double> score(const Lesson& lesson,
                            std::span<const strategy::Strategy> strategies) const override {
    told.push_back({taught, lesson.graph});
    return std::vector<double>(strategies.size());
  }
  void save(const std::filesystem::path&) const override {}
  std::vector<const graph::Graph*> taught;
  std::vector<Told>& told;
};

struct TransferOf : ::testing::Test {
  std::vector<TransferCell> others(int target_trials) {
    return transfer(prepared_domains(data), "listener", {Source::kOthers}, target_trials, options);
  }
  void SetUp() override {
    options.seeds = 2;
    options.make_ranker = [this](const std::string&) { return std::make_unique<Listener>(told); };
    options.progress = [this](int done, int total, const std::string&) { steps.push_back({done, total}); };
  }
  dataset::Dataset data = three_domains();
  EvaluationOptions options;
  std::vector<Told> told;
  std::vector<std::pair<int, int>> steps;
};

TEST_F(TransferOf, AllOthersAreAllButTheTarget) {
  EXPECT_EQ(others(0).size(), 3u);  // without trials of the target, zero-shot only
  ASSERT_EQ(told.size(), 6u);
  for (const Told& t : told) {
    EXPECT_EQ(t.taught.size(), 2u);
    EXPECT_THAT(t.taught, ::testing::Not(::testing::Contains(t.asked)));
  }
}

TEST_F(TransferOf, OneTrialOfTheTargetIsALessonToo) {
  const auto cells = others(1);
  ASSERT_EQ(cells.size(), 6u);
  EXPECT_EQ(cells[1].target_trials, 1);
  ASSERT_EQ(told.size(), 12u);
  EXPECT_THAT(told[1].taught, ::testing::Contains(told[1].asked));
}

TEST_F(TransferOf, ProgressEndsWithTheLastOfAll) {
  others(0);
  ASSERT_EQ(steps.size(), 6u);
  EXPECT_EQ(steps.front(), std::pair(1, 6));
  EXPECT_EQ(steps.back(), std::pair(6, 6));
}

}  // namespace
}  // namespace entrain::simulator
