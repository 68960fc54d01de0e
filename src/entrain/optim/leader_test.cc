#include "entrain/optim/leader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace entrain::optim {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(LossWindow, MeanOfTheLastLosses) {
  LossWindow window(3);
  EXPECT_EQ(window.mean(), kInfinity);
  for (const double loss : {9.0, 1.0, 2.0, 6.0}) window.add(loss);
  EXPECT_DOUBLE_EQ(window.mean(), 3);
  LossWindow restored(3);
  restored.set(window.values());
  restored.add(4);
  EXPECT_DOUBLE_EQ(restored.mean(), 4);
}

TEST(Leader, LowestLossLeadsAndTiesGoToTheFirst) {
  EXPECT_EQ(best_leader({3, 1, 2}), 1);
  EXPECT_EQ(best_leader({2, 1, 1}), 1);
}

TEST(Leader, ADivergedWorkerDoesNotLead) {
  EXPECT_EQ(best_leader({kNan, 5, kInfinity}), 1);
  EXPECT_EQ(best_leader({kNan, kNan}), 0);
  EXPECT_EQ(stochastic_leader({kNan, 5, kInfinity}, 0.999), 1);
  EXPECT_EQ(stochastic_leader({kNan, kInfinity}, 0.5), 0);
}

TEST(Leader, StochasticChoiceFollowsTheSoftmax) {
  const std::vector<double> losses = {1000, 1001, 1002};  // large: weights must not underflow
  std::vector<int> led(3);
  const int draws = 30000;
  for (int step = 0; step < draws; ++step) ++led[stochastic_leader(losses, uniform_at(7, step))];
  const double sum = 1 + std::exp(-1) + std::exp(-2);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(led[i] / double(draws), std::exp(-i) / sum, 0.02) << i;
}

TEST(Leader, DrawsDependOnSeedAndStepOnly) {
  EXPECT_EQ(uniform_at(3, 5), uniform_at(3, 5));
  EXPECT_NE(uniform_at(3, 5), uniform_at(3, 6));
  EXPECT_NE(uniform_at(3, 5), uniform_at(4, 5));
}

}  // namespace
}  // namespace entrain::optim
