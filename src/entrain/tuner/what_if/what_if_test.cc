#include "entrain/tuner/what_if/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/base/error.h"
#include "entrain/tuner/what_if/whole_model.h"

namespace entrain::tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Layers of 10 ms forward and 20 ms backward per example, with these parameters of 4 bytes each.
graph::Graph tower(int64_t parameters, int64_t output_bytes = 1000) {
  graph::Graph g;
  g.model = "tower";
  g.batch_size = 4;
  for (int l = 0; l < 6; ++l) {
    graph::Variable v;
    v.name = "w" + std::to_string(l);
    v.shape = {parameters};
    v.ready_order = 5 - l;
    g.variables.push_back(v);
    g.layers.push_back({.name = "layer",
                        .variables = {l},
                        .times = {{1, 0.01, 0.02}, {4, 0.04, 0.08}},
                        .output_bytes = output_bytes,
                        .kept_bytes = 1'000'000});
  }
  return g;
}

constexpr double kAllWork = 16 * 6 * 0.03;  // seconds, of 16 examples on one rank

WhatIfOptions quick() {
  WhatIfOptions options;
  options.planned = 6;
  options.evaluations = 20;
  return options;
}

Setting setting(int64_t examples, int hosts, double gbit) { return {examples, hosts, gbit}; }

TEST(WhatIfSetting, TheProductHasEveryCombinationAndWhatIsNotVariedStays) {
  EXPECT_THAT(product({}, 16), ElementsAre(setting(16, 0, 0)));
  EXPECT_THAT(product({.link_gbit = {1, 10}, .hosts = {2, 4}, .examples = {8}}, 16),
              ElementsAre(setting(8, 2, 1), setting(8, 2, 10), setting(8, 4, 1), setting(8, 4, 10)));
}

TEST(WhatIfSetting, WhatTheClusterHasAnywayIsNoChange) {
  const auto alike = cluster::parse("lab:4x1gbit");
  EXPECT_EQ(normal(setting(8, 4, 1), alike), setting(8, 0, 0));
  EXPECT_EQ(normal(setting(8, 2, 1), alike), setting(8, 2, 0));
  EXPECT_EQ(normal(setting(8, 4, 10), alike), setting(8, 0, 10));
  const auto mixed = cluster::parse("lab:1x10gbit+3x1gbit");
  EXPECT_EQ(normal(setting(8, 4, 10), mixed), setting(8, 4, 0));  // four like the first
  EXPECT_EQ(normal(setting(8, 0, 10), mixed), setting(8, 0, 10));
}

TEST(WhatIfSetting, MoreHostsAreLikeTheFirst) {
  const auto mixed = cluster::parse("lab:1x10gbit/ranks=2/speed=0.5+2x1gbit");
  const auto five = cluster_of(setting(8, 5, 0), mixed);
  EXPECT_EQ(five.workers(), 10);
  EXPECT_EQ(five.hosts[4].bandwidth_gbit, 10);
  EXPECT_EQ(five.hosts[4].speed, 0.5);
  EXPECT_NE(five.hosts[4].address, five.hosts[3].address);
  EXPECT_TRUE(five.hosts[0].chief && !five.hosts[4].chief);
  try {
    cluster_of(setting(8, 4000, 0), mixed);
    FAIL() << "8,000 ranks were accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("hosts is 4000, with 2 ranks each; allowed: at most 4096 ranks"));
  }
}

TEST(WhatIfSetting, AJobOfFewerHostsRunsOnMoreOfTheSameKindOnly) {
  const auto four = cluster::parse("lab:4x1gbit");
  EXPECT_TRUE(begins_with(four, cluster::parse("lab:2x1gbit")));
  EXPECT_TRUE(begins_with(four, four));
  EXPECT_FALSE(begins_with(four, cluster::parse("lab:5x1gbit")));
  EXPECT_FALSE(begins_with(four, cluster::parse("lab:2x100mbit")));
  EXPECT_FALSE(begins_with(four, cluster::parse("lab:1x1gbit+1x1gbit/speed=0.5")));
  EXPECT_FALSE(begins_with(four, cluster::parse("lab:2x1gbit/ranks=2")));
}

TEST(WhatIfSetting, AnotherLinkReplacesMeasuredRatesAndKeepsLatencies) {
  auto cluster = cluster::parse("lab:2x1gbit");
  cluster.links = {{0, 1, 0.9, 0.003}, {1, 1, 30, 0.0001}};
  const auto faster = cluster_of(setting(8, 0, 10), cluster);
  EXPECT_EQ(faster.gbit(0, 1), 10);
  EXPECT_EQ(faster.gbit(1, 1), 30);  // within a host
  EXPECT_EQ(faster.latency_s(0, 1), 0.003);
  EXPECT_EQ(faster.hosts[1].bandwidth_gbit, 10);
  EXPECT_EQ(cluster_of(setting(8, 3, 0), cluster).gbit(0, 1), 1);  // other hosts: nothing was measured
}

// 24 MB of parameters and little work: the link decides. Little to send: the hosts do.
TEST(WhatIf, SaysWhichStepIsWorthMore) {
  const auto cluster = cluster::parse("lab:2x100mbit");
  const Axes axes{.link_gbit = {0.1, 1}, .hosts = {2, 4}};
  const auto heavy = what_if(tower(20'000'000, 4'000'000), cluster, axes, 16, quick());
  ASSERT_TRUE(heavy.faster_links && heavy.more_hosts);
  EXPECT_EQ(heavy.faster_links->gbit, 1);
  EXPECT_EQ(heavy.more_hosts->hosts, 4);
  EXPECT_GT(heavy.faster_links->speedup, heavy.more_hosts->speedup + 0.2);
  const auto light = what_if(tower(1000), cluster, axes, 16, quick());
  ASSERT_TRUE(light.faster_links && light.more_hosts);
  EXPECT_NEAR(light.more_hosts->speedup, 2, 0.2);
  EXPECT_NEAR(light.faster_links->speedup, 1, 0.05);
}

TEST(WhatIf, FasterLinksAndMoreHostsNeverMakeTheBestSlower) {
  const auto cluster = cluster::parse("lab:2x1gbit");
  const Axes axes{.link_gbit = {0.01, 0.1, 1}, .hosts = {1, 2, 3}};
  const auto found = what_if(tower(2'000'000), cluster, axes, 16, quick());
  ASSERT_EQ(found.points.size(), 9u);
  for (size_t i = 0; i < 9; ++i) {
    const auto& point = found.points[i];
    ASSERT_TRUE(point.best && point.alone);
    EXPECT_LE(point.best->seconds, point.alone->seconds * 1.0051);
    EXPECT_NEAR(point.alone->seconds, kAllWork, 0.1);
    EXPECT_GE(point.best->seconds, point.bound.seconds * 0.999);
    const auto slower = [&](size_t other) { return found.points[other].best->seconds * 1.011; };
    EXPECT_LE(point.best->seconds, i % 3 > 0 ? slower(i - 1) : 1e9) << i;
    EXPECT_LE(point.best->seconds, i >= 3 ? slower(i - 3) : 1e9) << i;
    EXPECT_LE(point.best->seconds, point.data_parallel ? point.data_parallel->seconds * 1.0051 : 1e9) << i;
  }
  EXPECT_EQ(found.points[0].best->hosts, 1);  // there is no more
}

TEST(WhatIf, OneHostIsBestWhereTheLinksAreTooSlow) {
  const auto found = what_if(tower(20'000'000, 50'000'000), cluster::parse("lab:4x1mbit"), {}, 16, quick());
  ASSERT_EQ(found.points.size(), 1u);
  EXPECT_EQ(found.points[0].best->hosts, 1);
  EXPECT_FALSE(found.faster_links || found.more_hosts);  // nothing was varied
  EXPECT_NEAR(found.points[0].examples_per_s(*found.points[0].best), 16 / (kAllWork + 0.12),
              0.02);  // 480 MB updated
}

TEST(WhatIf, TheBaseIsTheClusterAsItIsAlsoWhereTheProductHasItNot) {
  const auto cluster = cluster::parse("lab:1x1gbit/speed=0.5+2x1gbit");
  const auto found = what_if(tower(1000), cluster, {.hosts = {2, 6}}, 16, quick());
  EXPECT_EQ(found.base.setting, setting(16, 0, 0));
  EXPECT_EQ(found.base.cluster.hosts[1].speed, 1);
  EXPECT_EQ(found.points[0].cluster.hosts[1].speed, 0.5);
  ASSERT_TRUE(found.more_hosts);
  EXPECT_EQ(found.more_hosts->hosts, 6);
}

TEST(WhatIf, DataParallelIsAbsentWhereRanksOutnumberExamples) {
  const auto found = what_if(tower(1000), cluster::parse("lab:4x1gbit"), {.examples = {2, 4}}, 4, quick());
  EXPECT_FALSE(found.points[0].data_parallel);
  EXPECT_TRUE(found.points[1].data_parallel);
  EXPECT_EQ(found.points[1].data_parallel->hosts, 4);
}

TEST(WhatIf, MoreExamplesTakeLonger) {
  const auto found = what_if(tower(1000), cluster::parse("lab:4x1gbit"), {.examples = {4, 16}}, 4, quick());
  EXPECT_NEAR(found.points[1].best->seconds, 4 * found.points[0].best->seconds, 0.02);
}

TEST(WhatIf, FactorsOfACalibrationHoldForTheBound) {
  WhatIfOptions options = quick();
  options.calibration.compute_scale = 0.5;
  const auto found = what_if(tower(1000), cluster::parse("lab:2x1gbit"), {}, 16, options);
  EXPECT_NEAR(found.points[0].bound.compute_s, kAllWork / 4, 1e-6);
  EXPECT_NEAR(found.points[0].alone->seconds, kAllWork / 2, 0.1);
}

// 6 layers of 4 MB: parameters and gradients take 48 MB, the optimizer 24 MB per slot.
TEST(WhatIf, WhatTheOptimizerKeepsMustFitInMemory) {
  auto cluster = cluster::parse("lab:1x1gbit");
  cluster.hosts[0].memory_gib = 100e6 / (1 << 30);
  WhatIfOptions options = quick();
  options.optimizer_slots = 0;
  EXPECT_TRUE(what_if(tower(1'000'000), cluster, {}, 1, options).points[0].best);
  options.optimizer_slots = 4;
  EXPECT_FALSE(what_if(tower(1'000'000), cluster, {}, 1, options).points[0].best);
}

TEST(WhatIf, TellsHowFarItIs) {
  std::vector<int> done;
  what_if(tower(1000), cluster::parse("lab:2x1gbit"), {.examples = {2, 4}}, 4, quick(),
          [&](int d, int total) {
            EXPECT_EQ(total, 2);
            done.push_back(d);
          });
  EXPECT_THAT(done, ElementsAre(0, 1, 2));
}

// Times of the variables that do not add up to those of the layers, as measured ones.
TEST(WholeModel, AProfileOfAnotherBatchHasTheTimesOfItsLayers) {
  auto g = tower(1000);
  g.variables[0].forward_s = 0.3;
  g.variables[1].forward_s = 0.1;
  g.variables[2].sparse = true;
  g.variables[2].rows_per_step = 100;
  const auto h = at_batch(g, 8);
  EXPECT_NEAR(h.variables[0].forward_s, 6 * 0.08 * 3 / 4, 1e-9);
  EXPECT_NEAR(h.variables[2].backward_s, 0.16, 1e-9);  // unknown: equal parts
  EXPECT_EQ(h.variables[2].rows_per_step, 200);
  EXPECT_EQ(at_batch(g, 400).variables[2].rows_per_step, 1000);
}

PricerOptions with_examples(int64_t examples) {
  PricerOptions options;
  options.examples = examples;
  return options;
}

// 480 MB over 1 Gbit/s take 4.1 s at least: a shape waits for all of it after 0.96 s of forward and backward,
// a job without one begins the next forward meanwhile.
TEST(WholeModel, TheNextForwardBeginsWhileGradientsAreSummed) {
  const auto g = tower(20'000'000);
  const auto d = cluster::parse("lab:2x1gbit");
  const auto priced = price_whole_model(g, d, {}, with_examples(16));
  ASSERT_TRUE(priced);
  const auto in_shape = ShapePricer(g, d, {}, with_examples(16)).price(strategy::data_parallel(6, {0, 1}));
  EXPECT_LT(priced->seconds, in_shape->seconds - 0.2);
  EXPECT_GT(priced->seconds, 6 * 80e6 * 8 / 1e9);
  const auto uneven = price_whole_model(g, d, {}, with_examples(15));  // 8 and 7
  EXPECT_NEAR(uneven->seconds, in_shape->seconds, 0.1);
}

TEST(WhatIf, HostsThatWouldOnlySlowTheJobStayUnused) {
  const auto cluster = cluster::parse("lab:2x1gbit");
  for (const int64_t megabytes : {10, 40, 80}) {
    const auto found =
        what_if(tower(megabytes * 250'000, 10'000'000), cluster, {.hosts = {1, 2, 4, 8}}, 16, quick());
    for (size_t i = 1; i < found.points.size(); ++i) {
      EXPECT_LE(found.points[i].best->seconds, found.points[i - 1].best->seconds) << megabytes << " MB";
      EXPECT_LE(found.points[i].best->hosts, training_hosts(found.points[i].cluster));
    }
  }
}

TEST(WhatIf, NeedsTimedLayers) {
  auto g = tower(1000);
  g.layers[2].times.clear();
  EXPECT_THROW(what_if(g, cluster::parse("lab:2x1gbit"), {}, 4, quick()), InputError);
}

}  // namespace
}  // namespace entrain::tuner
