// Whole jobs under shapes and pipelines: the update is the job's, whatever the shape.
#include "entrain/train/cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "entrain/base/error.h"
#include "entrain/graph/profile.h"
#include "entrain/models/registry.h"
#include "entrain/pipeline/profile/graph_layers.h"
#include "entrain/strategy/shape_text.h"
#include "support/jobs.h"
#include "support/temp_dir.h"

namespace entrain::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kLayers = 6;

// Smooth: no kinks, where rounding decides the way of a gradient.
TrainOptions transformer() {
  TrainOptions options;
  options.model = "transformer-small";
  options.optimizer.base = "momentum";
  options.optimizer.learning_rate = 0.05;
  options.optimizer.clip_norm = 2;
  options.steps = 4;
  options.global_batch = 10;
  options.seed = 3;
  options.progress = false;
  return options;
}

strategy::Shape shape(const std::string& text) { return strategy::parse_shape(text, kLayers); }

TrainReport run(const std::string& cluster, const TrainOptions& options) {
  TrainReport report;
  testing::run_job(cluster, [&](job::Context& context) {
    const TrainReport own = train(context, options);
    if (context.rank() == 0) report = own;
  });
  return report;
}

void expect_same(const TrainReport& got, const TrainReport& expected, const std::string& what) {
  EXPECT_NEAR(got.first_loss, expected.first_loss, 1e-5 * expected.first_loss) << what;
  EXPECT_NEAR(got.last_loss, expected.last_loss, 1e-5 * expected.last_loss) << what;
}

TEST(Cells, AShapeChangesNothingThatAJobLearns) {
  TrainOptions options = transformer();
  const TrainReport alone = run("lab:4x1gbit", [&] {
    TrainOptions one = options;
    one.shape = shape("@0");
    return one;
  }());
  EXPECT_GT(std::abs(alone.last_loss - alone.first_loss), 1e-3) << "nothing was learned that could differ";
  for (const char* text :
       {"@0-3", "@0*.1,1-3*.3", "@2", "@1,3 m=4", "0-2@0,2 3-5@1,3 m=4", "0-3@0*.1,1-3*.3 4-5@0 m=10",
        "0-1@3 2-3@1 4-5@3,0 m=5 schedule=gpipe remat=never"}) {
    options.shape = shape(text);
    const TrainReport report = run("lab:4x1gbit", options);
    expect_same(report, alone, text);
  }
}

TEST(Cells, APipelineOfRanksIsAShapeAndHostsThatOnlyServeMaySum) {
  TrainOptions options = transformer();
  const std::string cluster = "lab:4x1gbit+1x1gbit/server";
  const TrainReport whole = run(cluster, [&] {
    TrainOptions one = options;
    one.shape = shape("@0");
    return one;
  }());
  options.strategy = "ps";
  options.pipeline.devices = 2;
  options.pipeline.micro_batches = 2;
  const TrainReport piped = run(cluster, options);
  expect_same(piped, whole, "pipeline of 2 with 2 replicas");
  EXPECT_THAT(piped.shape, HasSubstr("@0,2 "));
  EXPECT_THAT(piped.shape, HasSubstr("@1,3 m=4"));
  EXPECT_EQ(piped.bytes_sent.size(), 5u);
  EXPECT_EQ(piped.devices, 4);
  EXPECT_EQ(piped.micro_batches, 4);
  EXPECT_EQ(piped.balance.size(), 2u);
}

TEST(Cells, GradientsAreAccumulatedOverMicroBatches) {
  TrainOptions options = transformer();
  options.global_batch = 12;
  const TrainReport whole = run("lab:2x1gbit", options);
  options.pipeline.micro_batches = 3;
  const TrainReport accumulated = run("lab:2x1gbit", options);
  expect_same(accumulated, whole, "3 micro-batches per rank");
  EXPECT_EQ(accumulated.shape, "@0-1 m=6");
}

TEST(Cells, ExamplesNeedNotDivideAmongTheRanks) {
  TrainOptions options = transformer();
  options.global_batch = 7;
  const TrainReport three = run("lab:3x1gbit", options);
  EXPECT_GT(std::abs(three.last_loss - three.first_loss), 1e-3);
  options.shape = shape("0-2@2 3-5@0 m=7");
  expect_same(run("lab:3x1gbit", options), three, "a pipeline");
}

TEST(Cells, ACheckpointGoesOnUnderAnotherShape) {
  const test::TempDir dir;
  TrainOptions options = transformer();
  options.optimizer.base = "adam";
  options.optimizer.learning_rate = 1e-3;
  const TrainReport whole = run("lab:3x1gbit", options);
  const std::vector<std::string> shapes = {"0-2@0 3-5@1 m=5", "@2", "0-1@1 2-5@0,2 m=2"};
  for (size_t leg = 0; leg < shapes.size(); ++leg) {
    options.shape = shape(shapes[leg]);
    options.steps = leg + 1 < shapes.size() ? static_cast<int64_t>(leg) + 1 : 4;
    options.out = dir.path() / "run";
    options.resume = leg == 0 ? std::filesystem::path() : options.out;
    const TrainReport report = run("lab:3x1gbit", options);
    EXPECT_EQ(report.first_step, static_cast<int64_t>(leg));
    if (leg + 1 == shapes.size()) {
      EXPECT_NEAR(report.last_loss, whole.last_loss, 1e-5 * whole.last_loss);
    }
  }
  options.shape.reset();  // and by workers that have the whole model
  options.resume = options.out;
  options.steps = 5;
  EXPECT_EQ(run("lab:3x1gbit", options).first_step, 4);
}

graph::Graph profiled(const TrainOptions& options, int64_t batch) {
  const auto model = models::make_model(options.model, 0);
  auto generator = at::detail::createCPUGenerator(0);
  const auto examples = model->synthetic(batch, generator);
  graph::Graph graph = graph::profile(*model, [&] { return model->loss(examples); }, {});
  graph.model = options.model;
  pipeline::add_layers(graph, *model, model->sequence(), examples.input, examples.target, {1, batch},
                       {.repeats = 1});
  for (graph::Layer& layer : graph.layers) {
    for (graph::LayerTime& time : layer.times) time.forward_s = time.backward_s = 1e-5;
  }
  return graph;
}

// Messages are real: as many bytes as when the model computes.
TEST(Cells, AReplayedModelSendsWhatTheModelSends) {
  TrainOptions options = transformer();
  options.optimizer.clip_norm = 0;
  options.steps = 3;
  options.overlap_forward = false;  // each step's bytes within the step
  for (const char* text : {"@0-2", "0-2@0 3-5@1 m=5", "0-1@1,2 2-5@0 m=4 remat=never", "@1 m=2"}) {
    options.shape = shape(text);
    options.replay.reset();
    const TrainReport real = run("lab:3x1gbit", options);
    options.replay = profiled(options, 4);
    const TrainReport replayed = run("lab:3x1gbit", options);
    for (size_t rank = 0; rank < 3; ++rank) {  // but for words like that of the loss
      EXPECT_NEAR(replayed.bytes_sent[rank], real.bytes_sent[rank], 100) << text << ", rank " << rank;
    }
    EXPECT_EQ(replayed.last_loss, 0) << text;
    EXPECT_EQ(replayed.step_times.size(), real.step_times.size()) << text;
  }
}

TEST(Cells, AReplayedModelMayBeReshaped) {
  TrainOptions options = transformer();
  options.optimizer.clip_norm = 0;
  options.replay = profiled(options, 4);
  options.shape = shape("@0-1 m=4");
  options.reshapes = {{1, shape("0-2@0 3-5@1 m=5")}, {2, shape("@1")}};
  EXPECT_EQ(run("lab:2x1gbit", options).shape, "@1");
}

TEST(Cells, AProfileWithoutTimesOfLayersIsRefused) {
  TrainOptions options = transformer();
  options.replay.emplace().model = "some";
  try {
    run("lab:1x1gbit", options);
    FAIL() << "no error";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("the profile of some has no times of layers"));
  }
}

// Whole numbers flow from table to table; gradients of rows that were looked up are sparse.
TEST(Cells, TablesOfARecommenderMayBeOnRanksOfTheirOwn) {
  TrainOptions options = transformer();
  options.optimizer.base = "sgd";
  options.optimizer.clip_norm = 0;
  options.optimizer.learning_rate = 5;
  for (const char* model : {"ncf-small", "ncf-sparse-small"}) {
    options.model = model;
    options.shape = strategy::parse_shape("@0", 7);
    const TrainReport alone = run("lab:3x1gbit", options);
    EXPECT_GT(std::abs(alone.last_loss - alone.first_loss), 1e-4);
    for (const char* text : {"0@1 1@2 2@1 3-6@0 m=5 remat=never", "0-3@0,1 4-6@0-2 m=6"}) {
      options.shape = strategy::parse_shape(text, 7);
      expect_same(run("lab:3x1gbit", options), alone, fmt::format("{} {}", model, text));
    }
  }
}

TEST(Cells, AJobThatGoesOnHasTheShapeThatItHadComeTo) {
  const test::TempDir dir;
  TrainOptions options = transformer();
  options.shape = shape("@0-1 m=4");
  options.reshapes = {{1, shape("@1")}, {2, shape("0-2@0 3-5@1")}, {4, shape("@0")}};
  options.out = dir.path() / "run";
  options.steps = 3;
  EXPECT_EQ(run("lab:2x1gbit", options).shape, "0-2@0 3-5@1");
  options.resume = options.out;
  options.steps = 4;
  EXPECT_EQ(run("lab:2x1gbit", options).shape, "0-2@0 3-5@1");
  options.steps = 5;
  EXPECT_EQ(run("lab:2x1gbit", options).shape, "@0");
}

TEST(Cells, WhatDoesNotFitIsRefusedByEveryRank) {
  const auto refusal = [&](const std::function<void(TrainOptions&)>& change, const std::string& cluster) {
    TrainOptions options = transformer();
    change(options);
    try {
      run(cluster, options);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  const std::string two = "lab:2x1gbit";
  EXPECT_THAT(refusal([](auto& o) { o.shape = shape("0-2@0 3-5@2"); }, two),
              HasSubstr("cell 1: rank 2 is not in the cluster, allowed: 0, 1"));
  EXPECT_THAT(refusal([](auto& o) { o.shape = shape("@0 m=11"); }, two),
              HasSubstr("micro_batches is 11, allowed: at most 10"));
  EXPECT_THAT(refusal([](auto& o) { o.shape = shape("@1"); }, "lab:1x1gbit+1x1gbit/server"),
              HasSubstr("rank 1 only serves parameters, allowed: 0"));
  EXPECT_THAT(refusal(
                  [](auto& o) {
                    o.reshapes = {{3, shape("0-2@0 3-5@2")}};
                  },
                  two),
              HasSubstr("cell 1: rank 2 is not in the cluster"));
  EXPECT_THAT(refusal(
                  [](auto& o) {
                    o.shape = shape("@0");
                    o.pipeline.devices = 2;
                  },
                  two),
              HasSubstr("allowed: one of them"));
  EXPECT_THAT(refusal(
                  [](auto& o) {
                    o.pipeline.devices = 2;
                    o.pipeline.micro_batches = 11;
                  },
                  two),
              HasSubstr("`micro_batches` 11 of 10 examples per update and pipeline: allowed: 1 to 10"));
}

}  // namespace
}  // namespace entrain::train
