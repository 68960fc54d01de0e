#include <gtest/gtest.h>

#include "entrain/base/error.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/layers/layer.h"
#include "entrain/layers/pass.h"

namespace entrain::layers {
namespace {

TEST(Dropout, APassDrawsTheSameAgainAndAnotherPassDrawsOther) {
  const auto x = torch::ones({1000});
  const auto draw = [&](const PassId& id) {
    const Pass pass(id);
    return drop(x, 0.5, true);
  };
  EXPECT_TRUE(torch::equal(draw({1, 2, 3, 4}), draw({1, 2, 3, 4})));
  EXPECT_FALSE(torch::equal(draw({1, 2, 3, 4}), draw({1, 2, 4, 3})));
  EXPECT_FALSE(torch::equal(draw({1, 2, 3, 4}), draw({1, 3, 3, 4})));
  EXPECT_NEAR(draw({1, 2, 3, 4}).mean().item<double>(), 1, 0.2);
}

TEST(Dropout, LeavesTorchsGeneratorAlone) {
  torch::manual_seed(3);
  const auto expected = torch::rand({4});
  torch::manual_seed(3);
  {
    const Pass pass({});
    drop(torch::ones({10}), 0.5, true);
  }
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
}

TEST(BatchNorm, DeferredStatisticsEqualOneUpdateFromTheWholeMiniBatch) {
  torch::manual_seed(1);
  const auto x = torch::randn({10, 3, 4, 4}) * 2 + 1;
  torch::nn::BatchNorm2d whole(3);
  whole(x);
  BatchNorm2d deferred(3);
  deferred->defer(true);
  for (const auto& part : {x.narrow(0, 0, 4), x.narrow(0, 4, 4), x.narrow(0, 8, 2)}) deferred(part);
  {
    const Pass pass({}, true);
    deferred(x.narrow(0, 0, 4));  // a recomputation does not count
  }
  EXPECT_EQ(deferred->num_batches_tracked.item<int64_t>(), 0);
  deferred->commit();
  EXPECT_TRUE(torch::allclose(deferred->running_mean, whole->running_mean, 1e-6, 1e-7));
  EXPECT_TRUE(torch::allclose(deferred->running_var, whole->running_var, 1e-6, 1e-7));
  EXPECT_EQ(deferred->num_batches_tracked.item<int64_t>(), 1);
}

TEST(BatchNorm, ARecomputationMovesNoStatistics) {
  BatchNorm2d norm(3);
  const auto x = torch::randn({4, 3, 2, 2});
  const auto y = norm(x);
  const auto mean = norm->running_mean.clone();
  const Pass pass({}, true);
  EXPECT_TRUE(torch::allclose(norm(x), y));
  EXPECT_TRUE(torch::equal(norm->running_mean, mean));
}

TEST(Layers, OfASequentialComputeTheSame) {
  torch::nn::Sequential modules(torch::nn::Linear(3, 4), torch::nn::ReLU(), torch::nn::Linear(4, 2));
  const Sequence sequence{layers_of(modules), {}};
  ASSERT_EQ(sequence.layers.size(), 3U);
  const auto x = torch::randn({5, 3});
  EXPECT_TRUE(torch::equal(forward(sequence, x), modules->forward(x)));
}

TEST(Skips, MistakesAreNamed) {
  const auto layer = [](std::vector<std::string> stashes, std::vector<std::string> pops) {
    return Layer{"l", nullptr, {}, std::move(stashes), std::move(pops)};
  };
  EXPECT_NO_THROW(check_skips({layer({"a"}, {}), layer({"a"}, {"a"}), layer({}, {"a"})}));
  EXPECT_THROW(check_skips({layer({}, {"a"})}), InputError);
  EXPECT_THROW(check_skips({layer({"a"}, {})}), InputError);
  EXPECT_THROW(check_skips({layer({"a"}, {}), layer({"a"}, {}), layer({}, {"a"})}), InputError);
}

}  // namespace
}  // namespace entrain::layers
