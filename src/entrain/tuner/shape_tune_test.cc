// A tune that also tries shapes: in which order, what is left out, what the result is compared with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/tuner/testing.h"
#include "entrain/tuner/tuner.h"

namespace entrain::tuner {
namespace {

using dataset::Trial;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

strategy::Strategy in_shape(const std::string& text) {
  strategy::Strategy strategy;
  strategy.id = text;
  strategy.shape = strategy::parse_shape(text, 8);
  return strategy;
}

// One host alone, a pipeline, and then batches of shapes as told.
class FakeShapes final : public ShapeSource {
 public:
  std::vector<Proposal> rivals() override {
    return {{in_shape("@0"), kAloneOrigin}, {in_shape("0-3@0 4-7@1 m=4"), kPipelineOrigin}};
  }
  std::vector<Proposal> ask(const std::vector<Trial>&) override {
    std::vector<Proposal> batch;
    if (asked < batches.size()) {
      for (const auto& text : batches[asked]) batch.push_back({in_shape(text), "planned"});
    }
    ++asked;
    return batch;
  }
  std::vector<std::vector<std::string>> batches;
  size_t asked = 0;
};

// Seconds by the strategy's name; what has no shape takes `whole_s`.
class NamedRunner final : public TrialRunner {
 public:
  Measured run(const strategy::Strategy& strategy, double deadline_s) override {
    ran.push_back(strategy.id);
    const double seconds = strategy.shape ? shapes.at(strategy.id) : whole_s;
    if (seconds > deadline_s) return {{seconds}, dataset::Status::kDeadline, "too slow"};
    return {{seconds, seconds, seconds}, dataset::Status::kOk, ""};
  }
  std::map<std::string, double> shapes;
  double whole_s = 1;
  std::vector<std::string> ran;
};

class ShapeTune : public ::testing::Test {
 protected:
  void SetUp() override {
    runner.shapes = {{"@0", 2}, {"0-3@0 4-7@1 m=4", 3}, {"@1-2", 0.5}, {"@2", 4}, {"@3", 5}};
    shapes.batches = {{"@1-2"}};
  }
  void TearDown() override { std::filesystem::remove(log_); }

  TuneResult run(const std::string& cluster = "lab:4x10gbit", int trials = 4) {
    dataset::Domain domain = testing::domain(cluster);
    if (std::filesystem::exists(log_)) domain.trials = dataset::load(log_).domains.at(0).trials;
    dataset::TrialLog log(log_);
    TuneOptions options;
    options.trials = trials;
    options.builders = {"allreduce", "ps"};
    options.search.evaluations = 50;
    options.search.population = 20;
    options.search.batch.size = 2;
    options.shapes = &shapes;
    return tune(domain, runner, log, {}, options);
  }

  FakeShapes shapes;
  NamedRunner runner;

 private:
  std::filesystem::path log_ = std::filesystem::temp_directory_path() /
                               ("entrain_shape_tune_" + std::to_string(::getpid()) + ".jsonl");
};

TEST_F(ShapeTune, TriesWhatItMustBeatThenPlannedShapesThenBuilders) {
  runner.whole_s = 0.6;
  run();
  const std::vector<std::string> first(runner.ran.begin(), runner.ran.begin() + 5);
  EXPECT_THAT(first, ElementsAre("@0", "0-3@0 4-7@1 m=4", "@1-2", "allreduce", "ps"));
}

TEST_F(ShapeTune, IsComparedWithOneHostAPipelineAndTheBuildersInTheFinalRound) {
  runner.whole_s = 0.6;
  const TuneResult result = run();
  EXPECT_EQ(result.best.id, "@1-2");
  EXPECT_EQ(result.best_baseline, "allreduce");
  EXPECT_DOUBLE_EQ(result.speedup, 0.6 / 0.5);
  for (const char* origin : {kAloneOrigin, kPipelineOrigin, kBuilderOrigin}) {
    const Standing* standing = result.fastest(origin);
    ASSERT_NE(standing, nullptr) << origin;
    EXPECT_TRUE(standing->final_round) << origin;
  }
  EXPECT_DOUBLE_EQ(result.fastest(kAloneOrigin)->seconds, 2);
  EXPECT_EQ(result.fastest("import"), nullptr);
}

TEST_F(ShapeTune, WhatIsClearlySlowerIsInTheFinalRoundOnceOnly) {
  runner.whole_s = 0.6;
  run();
  EXPECT_EQ(std::count(runner.ran.begin(), runner.ran.end(), "@0"), 2);  // 2 s, and first looked at
  EXPECT_EQ(std::count(runner.ran.begin(), runner.ran.end(), "@1-2"), 4);
  EXPECT_EQ(std::count(runner.ran.begin(), runner.ran.end(), "allreduce"), 4);
}

// 30 MB on four links of 100 Mbit/s take seconds.
TEST_F(ShapeTune, ABuilderThatTheLinksMakeTooSlowIsNotRun) {
  const TuneResult result = run("lab:4x100mbit");
  EXPECT_THAT(runner.ran, Not(Contains("allreduce")));
  EXPECT_THAT(runner.ran, Not(Contains("ps")));
  ASSERT_EQ(result.left_out.size(), 2u);
  EXPECT_EQ(result.left_out[0].name, "allreduce");
  EXPECT_THAT(result.left_out[0].reason, HasSubstr("not run: the links allow no step under 3."));
  EXPECT_EQ(result.best_baseline, "@0");
}

TEST_F(ShapeTune, ABuilderThatIsClearlySlowerEndsAfterOneStep) {
  runner.whole_s = 0.76;  // 1.5 times 0.5 s is the limit
  const TuneResult result = run();
  EXPECT_EQ(result.fastest(kBuilderOrigin), nullptr);
  ASSERT_EQ(result.left_out.size(), 2u);
  EXPECT_EQ(result.left_out[1].name, "ps");
  EXPECT_EQ(result.left_out[1].reason, "too slow");
}

TEST_F(ShapeTune, ShapesThatLeadByFarAreSearchedAlone) {
  runner.whole_s = 0.7;
  shapes.batches = {{"@1-2"}, {}, {"@2"}};
  const TuneResult result = run();
  EXPECT_EQ(result.trials, 2);
  EXPECT_THAT(runner.ran, Contains("@2"));
}

TEST_F(ShapeTune, ShapesThatLagByFarAreNotAskedForAgain) {
  runner.whole_s = 0.3;
  run();
  EXPECT_EQ(shapes.asked, 2u);  // before the builders: once with an answer, once without
  EXPECT_THAT(runner.ran, Contains("trial-6"));
}

TEST_F(ShapeTune, WhatIsCloseIsSearchedInBothWays) {
  runner.whole_s = 0.6;
  shapes.batches = {{"@1-2"}, {}, {"@2"}, {"@3"}};
  run();
  EXPECT_THAT(runner.ran, Contains("@2"));
  EXPECT_THAT(runner.ran, Contains("trial-6"));
}

TEST_F(ShapeTune, NoMoreAreTriedThanWereAskedFor) {
  runner.whole_s = 0.6;
  shapes.batches = {{"@1-2", "@2", "@3"}};
  EXPECT_EQ(run("lab:4x10gbit", 2).trials, 2);
  EXPECT_THAT(runner.ran, Not(Contains("@3")));
}

TEST_F(ShapeTune, OneThatIsResumedTriesNothingTwice) {
  runner.whole_s = 0.6;
  const TuneResult before = run();
  runner.ran.clear();
  shapes.asked = 0;
  const TuneResult after = run();
  EXPECT_THAT(runner.ran, IsEmpty());
  EXPECT_EQ(after.best, before.best);
  EXPECT_EQ(after.best_s, before.best_s);
}

}  // namespace
}  // namespace entrain::tuner
