#include "entrain/trials/standing_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/shape_text.h"
#include "support/jobs.h"
#include "support/temp_dir.h"

namespace entrain::trials {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kUneven = "lab:3x1gbit+1x1gbit/server";
const TrialMeasureOptions kFew{.least = 2, .most = 2};

StandingOptions transformer() {
  StandingOptions options;
  options.model = "transformer-small";
  options.batch_size = 4;
  options.shapes = true;
  return options;
}

// `measure` on rank 0, with the others following.
void run(const std::string& cluster, const StandingOptions& options,
         const std::function<void(StandingJob&, const cluster::Cluster&)>& measure) {
  testing::run_job(cluster, [&](job::Context& context) {
    torch::set_num_threads(1);
    StandingJob job(context, options);
    context.rank() == 0 ? measure(job, context.cluster) : job.follow();
  });
}

strategy::Strategy of(const StandingJob& job, const cluster::Cluster& cluster, const std::string& builder,
                      const std::string& shape) {
  strategy::Strategy strategy = strategy::build(builder, job.graph(), cluster, 0);
  if (!shape.empty()) {
    strategy.shape = strategy::parse_shape(shape, static_cast<int>(job.graph().layers.size()));
  }
  return strategy;
}

TEST(StandingJob, MeasuresAnyShapeAndTheWholeModelInTurn) {
  run(kUneven, transformer(), [](StandingJob& job, const cluster::Cluster& cluster) {
    for (const char* shape : {"", "0-2@0 3-5@1,2 m=4", "@1", "", "0-3@0*.2,1-2*.4 4-5@0 m=6", "@0-2"}) {
      for (const char* builder : {"ps", "allreduce"}) {
        const Measurement measured = job.measure(of(job, cluster, builder, shape), kFew);
        EXPECT_THAT(measured.seconds, SizeIs(2)) << shape;
        EXPECT_THAT(measured.seconds, Each(Gt(0))) << shape;
      }
    }
  });
}

TEST(StandingJob, KnowsWhatLayersTakeWhenShapesAreToCome) {
  StandingOptions options = transformer();
  run("local:2", options, [](StandingJob& job, const cluster::Cluster&) {
    ASSERT_EQ(job.graph().layers.size(), 6u);
    for (const graph::Layer& layer : job.graph().layers) {
      EXPECT_THAT(layer.times, SizeIs(3)) << layer.name;  // 1, 2 and 4 examples
      EXPECT_GT(layer.kept_bytes, 0) << layer.name;
    }
  });
  options.shapes = false;
  run("local:2", options,
      [](StandingJob& job, const cluster::Cluster&) { EXPECT_TRUE(job.graph().layers.empty()); });
}

TEST(StandingJob, AShapeThatDoesNotFitIsRefusedBeforeAnythingIsSwitched) {
  run(kUneven, transformer(), [](StandingJob& job, const cluster::Cluster& cluster) {
    const auto refusal = [&](const strategy::Shape& shape) -> std::string {
      strategy::Strategy strategy = of(job, cluster, "ps", "");
      strategy.shape = shape;
      try {
        job.measure(strategy, kFew);
      } catch (const InputError& e) {
        return e.what();
      }
      return "";
    };
    EXPECT_THAT(refusal({{{0, 5, {0}}}}), HasSubstr("allowed: 6"));
    EXPECT_THAT(refusal({{{0, 6, {3}}}}), HasSubstr("only serves"));
    EXPECT_THAT(refusal({{{0, 6, {0}}}, 13}), HasSubstr("at most 12"));
    EXPECT_THAT(job.measure(of(job, cluster, "ps", "@2"), kFew).seconds, SizeIs(2));
  });
}

// Two layers that sleep: 20 ms forward and 30 ms backward for each example, all layers together.
graph::Graph sleepers() {
  graph::Graph graph;
  graph.model = "sleepers";
  graph.batch_size = 2;
  graph.input_bytes = 4;
  for (int l = 0; l < 2; ++l) {
    graph.variables.push_back({.name = "w" + std::to_string(l),
                               .shape = {8},
                               .ready_order = 1 - l,
                               .forward_s = 0.02,
                               .backward_s = 0.03});
    graph.layers.push_back(
        {.name = "layer", .variables = {l}, .times = {{1, 0.01, 0.015}}, .output_bytes = 4});
  }
  return graph;
}

// Four examples per update. A host of half the speed takes twice as long.
TEST(StandingJob, AReplayedShapeSleepsForAsLongAsItsPassesTake) {
  const test::TempDir folder;
  graph::save(sleepers(), folder.path() / "g.json");
  StandingOptions options;
  options.model = "sleepers";
  options.compute = "replay:" + (folder.path() / "g.json").string();
  options.batch_size = 2;
  options.shapes = true;
  run("lab:1x1gbit+1x1gbit/speed=0.5", options, [](StandingJob& job, const cluster::Cluster& cluster) {
    const auto fastest = [&](const char* shape) {
      const auto seconds = job.measure(of(job, cluster, "allreduce", shape), kFew).seconds;
      return *std::min_element(seconds.begin(), seconds.end());
    };
    EXPECT_GE(fastest("@0 remat=never"), 4 * 0.05);
    EXPECT_GE(fastest("@1 remat=never"), 2 * 4 * 0.05);
    EXPECT_GE(fastest(""), 0.9 * 2 * 2 * 0.05);  // a rank may run ahead of the other
    EXPECT_GE(fastest("0@0 1@1 m=1 remat=never"), 4 * 0.025 + 2 * 4 * 0.025);
  });
}

}  // namespace
}  // namespace entrain::trials
