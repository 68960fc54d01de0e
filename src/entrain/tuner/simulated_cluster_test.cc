// The simulated cluster repeats itself, disturbs what it measures, and is no oracle for the tuner's
// simulator.
#include "entrain/tuner/simulated_cluster.h"

#include <gtest/gtest.h>

#include <cmath>

#include "entrain/dataset/testing.h"
#include "entrain/plan/link_bound.h"
#include "entrain/plan/plan.h"

namespace entrain::tuner {
namespace {

const dataset::Domain& domain() {
  static const dataset::Domain d = dataset::testing::small_domain("ncf", "lab:1x10gbit+3x1gbit");
  return d;
}

SimulatedCluster cluster(const SimulatedOptions& options) {
  return {domain().graph, domain().cluster, options};
}

TEST(SimulatedCluster, SameSeedSameSeconds) {
  SimulatedCluster a = cluster({}), b = cluster({});
  for (const auto& trial : domain().trials) {
    EXPECT_EQ(a.run(trial.strategy, 100).seconds, b.run(trial.strategy, 100).seconds);
  }
  SimulatedOptions other;
  other.seed = 1;
  EXPECT_NE(cluster(other).truth(domain().trials[0].strategy), a.truth(domain().trials[0].strategy));
}

TEST(SimulatedCluster, RepeatsScatterAroundTheTruth) {
  SimulatedOptions options;
  options.steps = 400;
  SimulatedCluster c = cluster(options);
  const auto& strategy = domain().trials[0].strategy;
  const auto first = c.run(strategy, 1e9).seconds, second = c.run(strategy, 1e9).seconds;
  EXPECT_NE(first, second);
  EXPECT_EQ(first.size(), 400U);
  double mean = 0, squares = 0;
  for (const double s : first) mean += std::log(s) / 400;
  for (const double s : first) squares += std::pow(std::log(s) - mean, 2) / 399;
  EXPECT_NEAR(std::sqrt(squares), options.step_noise, 0.004);
  EXPECT_NEAR(mean, std::log(c.truth(strategy)), 5 * options.trial_noise);
}

TEST(SimulatedCluster, WithoutErrorsItIsTheSimulation) {
  SimulatedOptions options;
  options.calibration_error = options.model_error = options.trial_noise = options.step_noise = 0;
  SimulatedCluster exact = cluster(options);
  const simulator::EventSimulation simulation(domain().graph, domain().cluster, {});
  for (const auto& trial : domain().trials) {
    const double expected = simulation.estimate(trial.strategy).seconds;
    EXPECT_DOUBLE_EQ(exact.truth(trial.strategy), expected);
    EXPECT_DOUBLE_EQ(exact.run(trial.strategy, 100).seconds[0], expected);
    EXPECT_NE(cluster({}).truth(trial.strategy), expected);
  }
}

TEST(SimulatedCluster, TheSameStrategyUnderAnotherNameIsTheSame) {
  strategy::Strategy renamed = domain().trials[0].strategy;
  renamed.id = "other";
  EXPECT_EQ(cluster({}).truth(renamed), cluster({}).truth(domain().trials[0].strategy));
}

TEST(SimulatedCluster, NoLinkCarriesMoreThanItsRate) {
  const auto& strategy = domain().trials[0].strategy;
  const auto plan = plan::make_plan(strategy, domain().graph, domain().cluster);
  SimulatedOptions options;
  options.calibration_error = 1;  // some links would be three times as fast
  options.model_error = 0;
  for (options.seed = 0; options.seed < 20; ++options.seed) {
    EXPECT_GT(cluster(options).truth(strategy),
              plan::link_bound(plan, domain().graph, domain().cluster).seconds);
  }
}

TEST(SimulatedCluster, ADeadlineThatIsTooShortIsSaid) {
  EXPECT_EQ(cluster({}).run(domain().trials[0].strategy, 1e-9).status, dataset::Status::kDeadline);
}

}  // namespace
}  // namespace entrain::tuner
