// A tune inside a job, driven step by step: what is tried, what is left out, where the job ends. Times are
// told, not measured.
#include "entrain/trials/online_tuner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "entrain/plan/assignment.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::trials {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Eight layers of 10 ms forward and 20 ms backward per example, 4 MB each; 16 examples per update.
graph::Graph tower() {
  graph::Graph g;
  for (int l = 0; l < 8; ++l) {
    graph::Variable v;
    v.name = fmt::format("w{}", l);
    v.shape = {1'000'000};
    v.ready_order = 7 - l;
    g.variables.push_back(v);
    g.layers.push_back({.name = "layer",
                        .variables = {l},
                        .times = {{1, 0.01, 0.02}, {4, 0.04, 0.08}},
                        .output_bytes = 1000,
                        .kept_bytes = 1000});
  }
  return g;
}

// A job of which each step takes as long as `seconds` says of its shape ("": none). Steps that pass while the
// search thinks are not counted, so that nothing depends on how long it does.
class Job {
 public:
  using Seconds = std::function<double(const std::string& shape)>;
  Job(int64_t steps, Seconds seconds)
      : tuner(cluster::parse("lab:4x1gbit"),
              {.model = "tower", .batch_size = 4, .steps = steps, .examples = 16}),
        seconds_(std::move(seconds)) {
    strategy_ = tuner.begin(tower());
    shapes.push_back(shape());
  }

  void run_until_it_settles(size_t times = 1) {
    bool first = false;
    while (tuner.summary()["tunes"].size() < times) {
      const auto step = static_cast<int64_t>(5 * shapes.size());
      const auto wanted = tuner.observe({step, seconds_(shape()), strategy_.id, first}, {});
      first = wanted.has_value();
      if (!first) continue;
      strategy_ = *wanted;
      shapes.push_back(shape());
    }
  }

  std::string shape() const { return strategy_.shape ? strategy::to_text(*strategy_.shape) : ""; }
  nlohmann::json tune() const { return tuner.summary()["tunes"].at(0); }

  OnlineTuner tuner;
  std::vector<std::string> shapes;  // that the job has had, in order

 private:
  Seconds seconds_;
  strategy::Strategy strategy_;
};

bool is_alone(const std::string& shape) { return shape.starts_with("@0 "); }

// The second that is tried after one host alone is the fastest; the search expected the first to be.
TEST(OnlineTuner, TheJobBeginsOnOneHostAndEndsInTheShapeThatTheStepsFavour) {
  std::map<std::string, double> told;
  Job job(400, [&](const std::string& shape) {
    const double by_order[] = {3.84, 2, 0.8};
    return told.try_emplace(shape, told.size() < 3 ? by_order[told.size()] : 1.2).first->second;
  });
  job.run_until_it_settles();
  ASSERT_GE(job.shapes.size(), 4u);
  EXPECT_TRUE(is_alone(job.shapes[0])) << job.shapes[0];
  EXPECT_EQ(job.shape(), job.shapes[2]);
  EXPECT_EQ(job.tune()["shape"], job.shapes[2]);
  EXPECT_DOUBLE_EQ(job.tune()["best_step_time_s"].get<double>(), 0.8);
  EXPECT_DOUBLE_EQ(job.tune()["one_host_step_time_s"].get<double>(), 3.84);
}

// Dropout draws by micro-batch, so each of these makes the same update.
TEST(OnlineTuner, AllShapesOfAJobHaveTheSameMicroBatches) {
  Job job(400, [](const std::string& shape) {
    return is_alone(shape) ? 2 : shape.starts_with("@0-3") ? 0.5 : 1;
  });
  job.run_until_it_settles();
  std::set<std::vector<int64_t>> begins;
  for (const std::string& text : job.shapes) {
    std::vector<int64_t> of;
    for (const auto& part : plan::assign(strategy::parse_shape(text, 8), 16).micro_batches)
      of.push_back(part.begin);
    begins.insert(of);
  }
  EXPECT_GE(job.shapes.size(), 3u);
  EXPECT_THAT(begins, SizeIs(1));
}

TEST(OnlineTuner, OneHostAloneMayBeTheResult) {
  Job job(400, [](const std::string& shape) { return is_alone(shape) ? 2 : 4; });
  job.run_until_it_settles();
  EXPECT_TRUE(is_alone(job.shape())) << job.shape();
  EXPECT_EQ(job.tuner.summary()["settled_on"], "one host (198.18.0.1)");
}

TEST(OnlineTuner, WhatWouldCostMoreThanItMayBringIsNotRun) {
  Job job(400, [](const std::string& shape) { return is_alone(shape) ? 3.84 : 1; });
  job.run_until_it_settles();
  std::map<std::string, nlohmann::json> builders;
  const nlohmann::json tune = job.tune();
  for (const auto& trial : tune["tried"]) {
    if (trial["origin"] == "builder") builders[trial["name"]] = trial;
  }
  ASSERT_THAT(builders, SizeIs(4));
  EXPECT_THAT(builders["ps"]["reason"].get<std::string>(), HasSubstr("not run: "));
}

TEST(OnlineTuner, AJobThatBecomesSlowerTunesAgainAndLeavesItsShapeOnlyForABetterOne) {
  double slower = 1;
  std::string first;  // after one host alone
  Job job(800, [&](const std::string& shape) {
    if (first.empty() && !is_alone(shape)) first = shape;
    return shape == first ? slower : 3.84;
  });
  job.run_until_it_settles();
  const std::string before = job.shape();
  EXPECT_EQ(before, first);
  for (int64_t step = 300; step < 330; ++step) job.tuner.observe({step, 1, "", false}, {});
  slower = 2;
  const size_t tried = job.shapes.size();
  job.run_until_it_settles(2);
  for (size_t i = tried; i < job.shapes.size(); ++i) EXPECT_FALSE(is_alone(job.shapes[i]));
  EXPECT_EQ(job.shape(), before);
}

TEST(OnlineTuner, AShortJobStaysWhereItIs) {
  Job job(6, [](const std::string&) { return 3.84; });
  job.run_until_it_settles();
  EXPECT_THAT(job.shapes, Each(job.shapes[0]));
}

// Without begin() nothing moves: builders and what the search proposes, none with a shape.
TEST(OnlineTuner, AJobThatIsNotCutKeepsAllLayersOnAllRanks) {
  OnlineTuner tuner(cluster::parse("lab:4x1gbit"), {.model = "tower", .batch_size = 4, .steps = 200});
  bool first = false;
  for (int64_t step = 1; tuner.summary()["tunes"].empty(); ++step) {
    const auto wanted = tuner.observe({step, 0.5, "", first}, tower);
    first = wanted.has_value();
    if (first) {
      EXPECT_FALSE(wanted->shape);
    }
  }
  EXPECT_FALSE(tuner.summary()["tunes"][0].contains("shape"));
}

}  // namespace
}  // namespace entrain::trials
