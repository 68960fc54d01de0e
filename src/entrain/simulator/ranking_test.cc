#include "entrain/simulator/ranking.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

namespace entrain::simulator {
namespace {

TEST(Ranking, CountsPairsInTheRightOrder) {
  const std::vector<double> seconds = {1, 2, 3, 4};
  EXPECT_EQ(pair_accuracy(std::vector<double>{10, 20, 30, 40}, seconds), 1);
  EXPECT_EQ(pair_accuracy(std::vector<double>{4, 3, 2, 1}, seconds), 0);
  EXPECT_EQ(pair_accuracy(std::vector<double>{7, 7, 7, 7}, seconds), 0.5);
  EXPECT_NEAR(pair_accuracy(std::vector<double>{2, 1, 3, 4}, seconds), 5.0 / 6, 1e-12);
}

TEST(Ranking, PairsWithinTheNoiseAreLeftOut) {
  const std::vector<double> seconds = {1.00, 1.01, 2}, scores = {2, 1, 3};
  EXPECT_NEAR(pair_accuracy(scores, seconds), 2.0 / 3, 1e-12);
  EXPECT_EQ(pair_accuracy(scores, seconds, 0.02), 1);
  EXPECT_TRUE(std::isnan(pair_accuracy(scores, seconds, 0.9)));
  EXPECT_TRUE(std::isnan(pair_accuracy({}, {})));
}

TEST(Ranking, SplitHoldsEachOnceAndFollowsTheSeed) {
  const Split a = split(200, 1), b = split(200, 1), c = split(200, 2);
  EXPECT_EQ(a.training.size(), 140u);
  EXPECT_EQ(a.validation.size(), 30u);
  EXPECT_EQ(a.test.size(), 30u);
  std::set<int> all(a.training.begin(), a.training.end());
  all.insert(a.validation.begin(), a.validation.end());
  all.insert(a.test.begin(), a.test.end());
  EXPECT_EQ(all.size(), 200u);
  EXPECT_EQ(a.test, b.test);
  EXPECT_NE(a.test, c.test);
  EXPECT_EQ(split(1, 0).training.size(), 1u);
  EXPECT_TRUE(split(0, 0).training.empty());
}

TEST(Ranking, LossFallsAsTheSlowerScoresHigher) {
  EXPECT_NEAR(pair_loss(0), std::log(2), 1e-12);
  EXPECT_NEAR(pair_loss(50), 0, 1e-12);
  EXPECT_NEAR(pair_loss(-800), 800, 1e-9);
  EXPECT_NEAR((pair_loss(0.3 - 1e-6) - pair_loss(0.3 + 1e-6)) / 2e-6, pair_gradient(0.3), 1e-6);
}

TEST(Ranking, MeanAndSpread) {
  const MeanStd m = mean_std(std::vector<double>{1, 2, 3});
  EXPECT_EQ(m.mean, 2);
  EXPECT_EQ(m.std, 1);
  EXPECT_EQ(mean_std(std::vector<double>{5}).std, 0);
}

}  // namespace
}  // namespace entrain::simulator
