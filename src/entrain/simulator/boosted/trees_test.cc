#include "entrain/simulator/boosted/trees.h"

#include <gtest/gtest.h>

#include <numeric>

namespace entrain::simulator {
namespace {

TEST(Trees, BoostingLearnsAnInteractionOfTwoFeatures) {
  // y = 3 when both are above a half, else 0; a third feature is noise, a fourth constant.
  std::mt19937_64 rng(0);
  std::uniform_real_distribution<float> uniform(0, 1);
  FeatureRows rows;
  rows.width = 4;
  std::vector<double> y;
  for (int i = 0; i < 400; ++i) {
    const float a = uniform(rng), b = uniform(rng);
    rows.values.insert(rows.values.end(), {a, uniform(rng), b, 7});
    y.push_back(a > 0.5f && b > 0.5f ? 3 : 0);
  }
  TreeGrower grower(rows, {.depth = 2, .min_leaf = 5, .l2 = 0, .feature_share = 1});
  std::vector<int> all(y.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<double> score(y.size()), gradient(y.size()), hessian(y.size(), 1);
  for (int round = 0; round < 30; ++round) {
    for (size_t i = 0; i < y.size(); ++i) gradient[i] = score[i] - y[i];
    const Tree tree = grower.grow(all, gradient, hessian, rng);
    for (size_t i = 0; i < y.size(); ++i) score[i] += 0.5 * tree.predict(rows.row(static_cast<int>(i)));
  }
  double worst = 0;
  for (size_t i = 0; i < y.size(); ++i) worst += std::abs(score[i] - y[i]);
  EXPECT_LT(worst / 400, 0.1);  // edges stand between quantiles, so a few rows near a half are off
}

TEST(Trees, AConstantIsALeaf) {
  FeatureRows rows{{1, 1, 1, 1}, 1};
  TreeGrower grower(rows, {});
  std::mt19937_64 rng(0);
  const std::vector<double> gradient = {-1, -1, -1, -1}, hessian = {1, 1, 1, 1};
  const Tree tree = grower.grow({0, 1, 2, 3}, gradient, hessian, rng);
  ASSERT_EQ(tree.nodes.size(), 1u);
  EXPECT_FLOAT_EQ(tree.nodes[0].value, 4.0f / 5.0f);
}

Tree grown(const std::vector<float>& values, const std::vector<double>& gradient,
           const TreeOptions& options) {
  const FeatureRows rows{values, 1};
  std::vector<int> all(values.size());
  std::iota(all.begin(), all.end(), 0);
  std::mt19937_64 rng(0);
  const std::vector<double> hessian(values.size(), 1);
  return TreeGrower(rows, options).grow(all, gradient, hessian, rng);
}

TEST(Trees, ASplitStandsHalfwayBetweenTwoValues) {
  const Tree tree =
      grown({0, 1, 2, 3}, {1, 1, -1, -1}, {.depth = 1, .min_leaf = 1, .l2 = 1, .feature_share = 1});
  ASSERT_EQ(tree.nodes.size(), 3u);
  EXPECT_EQ(tree.nodes[0].feature, 0);
  EXPECT_FLOAT_EQ(tree.nodes[0].threshold, 1.5f);
  const float below = 1, above = 2;
  EXPECT_FLOAT_EQ(tree.predict(&below), -2.0f / 3);
  EXPECT_FLOAT_EQ(tree.predict(&above), 2.0f / 3);
}

TEST(Trees, LeavesHoldTheirRows) {
  const TreeOptions options{.depth = 1, .min_leaf = 2, .l2 = 0, .feature_share = 1};
  EXPECT_FLOAT_EQ(grown({0, 1, 2, 3}, {3, -1, -1, -1}, options).nodes[0].threshold, 1.5f);
  EXPECT_EQ(grown({0, 1, 2}, {3, -1, -1}, options).nodes.size(), 1u);
}

TEST(Trees, BothSidesAreSplitAgain) {
  const TreeOptions options{.depth = 2, .min_leaf = 1, .l2 = 0, .feature_share = 1};
  for (const bool mirrored : {false, true}) {
    std::vector<double> gradient = {1, -1, 9, 9};
    if (mirrored) gradient = {9, 9, -1, 1};
    const Tree tree = grown({0, 1, 2, 3}, gradient, options);
    for (int i = 0; i < 4; ++i) {
      const auto value = static_cast<float>(i);
      EXPECT_FLOAT_EQ(tree.predict(&value), static_cast<float>(-gradient[static_cast<size_t>(i)])) << i;
    }
  }
}

TEST(Trees, ATreeIsNoDeeperThanAsked) {
  const TreeOptions options{.depth = 1, .min_leaf = 1, .l2 = 0, .feature_share = 1};
  EXPECT_EQ(grown({0, 1, 2, 3}, {1, -1, 9, 9}, options).nodes.size(), 3u);
  EXPECT_EQ(grown({0, 1, 2, 3}, {9, 9, -1, 1}, options).nodes.size(), 3u);
}

TEST(Trees, TheFirstRowIsSeenAsItIs) {
  const TreeOptions options{.depth = 1, .min_leaf = 1, .l2 = 0, .feature_share = 1};
  EXPECT_FLOAT_EQ(grown({13, 10, 11, 12}, {3, -1, -1, -1}, options).nodes[0].threshold, 12.5f);
}

TEST(Trees, ASplitIsMadeWhereItGains) {
  const TreeOptions options{.depth = 1, .min_leaf = 1, .l2 = 1, .feature_share = 1};
  EXPECT_EQ(grown({0, 1, 2, 3}, {3, 3, 0, 0}, options).nodes.size(), 3u);  // 36 / 3 is more than 36 / 5
  EXPECT_EQ(grown({0, 1, 2, 3}, {2, 2, 1, 1}, options).nodes.size(), 1u);  // 16 / 3 + 4 / 3 is not
}

TEST(Trees, EachTreeLooksAtFeaturesOfItsOwn) {
  const FeatureRows rows{{0, 0, 1, 1, 2, 2, 3, 3}, 2};
  TreeGrower grower(rows, {.depth = 1, .min_leaf = 1, .l2 = 0, .feature_share = 0.5});
  std::mt19937_64 rng(0);
  const std::vector<double> gradient = {1, 1, -1, -1}, hessian(4, 1);
  int roots[2] = {0, 0};
  for (int tree = 0; tree < 40; ++tree) {
    const int feature = grower.grow({0, 1, 2, 3}, gradient, hessian, rng).nodes[0].feature;
    ASSERT_GE(feature, 0);
    ++roots[feature];
  }
  EXPECT_GT(roots[0], 5);
  EXPECT_GT(roots[1], 5);
}

}  // namespace
}  // namespace entrain::simulator
