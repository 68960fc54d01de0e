#include "entrain/simulator/boosted/trees.h"

#include <gtest/gtest.h>

#include <numeric>

namespace entrain::simulator {
namespace {

TEST(Trees, BoostingLearnsAnInteractionOfTwoFeatures) {
  // y = 3 when both are above a half, else 0; a third feature is noise, a fourth constant.
  std::mt19937_64 rng(0);
  std::uniform_real_distribution<float> uniform(0, 1);
  Rows rows;
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
  Rows rows{{1, 1, 1, 1}, 1};
  TreeGrower grower(rows, {});
  std::mt19937_64 rng(0);
  const std::vector<double> gradient = {-1, -1, -1, -1}, hessian = {1, 1, 1, 1};
  const Tree tree = grower.grow({0, 1, 2, 3}, gradient, hessian, rng);
  ASSERT_EQ(tree.nodes.size(), 1u);
  EXPECT_FLOAT_EQ(tree.nodes[0].value, 4.0f / 5.0f);
}

}  // namespace
}  // namespace entrain::simulator
