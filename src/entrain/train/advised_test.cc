// Jobs whose shape an advisor changes while they train.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "entrain/base/error.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/train/train.h"
#include "entrain/trials/online_tuner.h"
#include "support/jobs.h"
#include "support/temp_dir.h"

namespace entrain::train {
namespace {

using ::testing::HasSubstr;

constexpr int kLayers = 6;

TrainOptions transformer() {
  TrainOptions options;
  options.model = "transformer-small";
  options.optimizer.base = "adam";
  options.optimizer.learning_rate = 1e-3;
  options.steps = 16;
  options.global_batch = 12;
  options.seed = 3;
  options.progress = false;
  return options;
}

// One after the other, each as soon as the one before is there: a builder's way to synchronize, and a shape;
// without one, all layers on all ranks.
class Script final : public trials::StrategyAdvisor {
 public:
  struct Line {
    std::string builder, shape;
  };
  Script(const cluster::Cluster& cluster, std::vector<Line> lines)
      : cluster_(cluster), lines_(std::move(lines)) {}

  strategy::Strategy begin(const graph::Graph& profile) override {
    graph_ = profile;
    return next();
  }
  std::optional<strategy::Strategy> observe(const trials::StepSeen&,
                                            const std::function<graph::Graph()>&) override {
    if (at_ == fails_at) fail("out of memory");
    if (at_ == lines_.size()) return std::nullopt;
    return next();
  }
  size_t fails_at = 1000;

 private:
  strategy::Strategy next() {
    const Line& line = lines_[at_++];
    strategy::Strategy strategy = strategy::build(line.builder, graph_, cluster_, 0);
    if (!line.shape.empty()) strategy.shape = strategy::parse_shape(line.shape, kLayers);
    return strategy;
  }
  cluster::Cluster cluster_;
  std::vector<Line> lines_;
  graph::Graph graph_;
  size_t at_ = 0;
};

TrainReport run(const std::string& cluster, TrainOptions options, trials::StrategyAdvisor* advisor) {
  TrainReport report;
  testing::run_job(cluster, [&](job::Context& context) {
    TrainOptions own = options;
    if (context.rank() == 0) own.advisor = advisor;
    const TrainReport here = train(context, own);
    if (context.rank() == 0) report = here;
  });
  return report;
}

TrainReport in_shape(const std::string& cluster, TrainOptions options, const std::string& shape) {
  options.shape = strategy::parse_shape(shape, kLayers);
  return run(cluster, options, nullptr);
}

const std::vector<Script::Line> kLines = {{"allreduce", "@0 m=2"},
                                          {"ps", "0-2@0 3-5@1,2 m=4"},
                                          {"byteps", ""},
                                          {"partitioned-allreduce", "0-3@0*.2,1-2*.4 4-5@0 m=5"},
                                          {"ps", "@1,2 m=4"}};

TEST(AdvisedShapes, AJobLearnsWhatItWouldInOneShapeAndEndsInTheLast) {
  const std::string cluster = "lab:3x1gbit+1x1gbit/server";
  TrainOptions options = transformer();
  const TrainReport fixed = in_shape(cluster, options, "@0");
  EXPECT_GT(std::abs(fixed.last_loss - fixed.first_loss), 1e-3) << "nothing was learned that could differ";
  Script script(cluster::parse(cluster), kLines);
  options.shapes_advised = true;
  const TrainReport report = run(cluster, options, &script);
  EXPECT_NEAR(report.first_loss, fixed.first_loss, 1e-5 * fixed.first_loss);
  EXPECT_NEAR(report.last_loss, fixed.last_loss, 1e-5 * fixed.last_loss);
  EXPECT_EQ(report.shape, "@1-2 m=4");
  EXPECT_EQ(report.strategy_id, "ps");
}

TEST(AdvisedShapes, ItsCheckpointGoesOnInAnyShape) {
  const test::TempDir dir;
  TrainOptions options = transformer();
  const TrainReport fixed = in_shape("lab:3x1gbit", options, "@0");
  options.out = dir.path() / "run";
  options.shapes_advised = true;
  options.steps = 7;
  Script script(cluster::parse("lab:3x1gbit"), kLines);
  run("lab:3x1gbit", options, &script);
  std::ifstream lines(options.out / "metrics.jsonl");
  const std::string metrics((std::istreambuf_iterator<char>(lines)), {});
  EXPECT_THAT(metrics, HasSubstr(R"("shape":"0-2@0 3-5@1-2 m=4")"));
  options.shapes_advised = false;
  options.resume = options.out;
  options.steps = 16;
  const TrainReport report = in_shape("lab:3x1gbit", options, "0-1@2 2-5@1 m=3");
  EXPECT_EQ(report.first_step, 7);
  EXPECT_NEAR(report.last_loss, fixed.last_loss, 1e-5 * fixed.last_loss);
}

TEST(AdvisedShapes, ADeathDuringATrialEndsTheJobByName) {
  TrainOptions options = transformer();
  options.shapes_advised = true;
  Script script(cluster::parse("lab:3x1gbit"), kLines);
  script.fails_at = 2;
  std::string told;
  try {
    testing::run_job("lab:3x1gbit", [&](job::Context& context) {
      TrainOptions own = options;
      if (context.rank() == 0) own.advisor = &script;
      if (context.rank() != 1) return train(context, own), void();
      try {
        train(context, own);
      } catch (const PeerError& e) {
        EXPECT_EQ(e.peer(), 0);
        told = e.what();
      }
    });
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("out of memory"));
  }
  EXPECT_THAT(told, HasSubstr("out of memory"));
}

// Times are real here, so any shape may win; the update is the same under all.
TEST(AdvisedShapes, ATuneInsideAJobChangesNothingThatItLearns) {
  TrainOptions options = transformer();
  options.steps = 60;
  const TrainReport fixed = in_shape("lab:2x1gbit", options, "@0");
  trials::OnlineTuner tuner(cluster::parse("lab:2x1gbit"),
                            {.model = options.model, .batch_size = 6, .steps = 60, .examples = 12});
  options.shapes_advised = true;
  const TrainReport report = run("lab:2x1gbit", options, &tuner);
  EXPECT_NEAR(report.last_loss, fixed.last_loss, 1e-5 * fixed.last_loss);
  EXPECT_FALSE(report.shape.empty());
}

TEST(AdvisedShapes, AShapeOfTheUsersIsRefused) {
  TrainOptions options = transformer();
  options.shapes_advised = true;
  options.pipeline.devices = 2;
  Script script(cluster::parse("lab:2x1gbit"), kLines);
  try {
    run("lab:2x1gbit", options, &script);
    FAIL() << "no error";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("where shapes are searched: allowed: none of them"));
  }
}

}  // namespace
}  // namespace entrain::train
