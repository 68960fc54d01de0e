#include "entrain/pipeline/profile/layer_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "entrain/base/error.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/layers/pass.h"
#include "entrain/pipeline/profile/layer_estimate.h"

namespace entrain::pipeline {
namespace {

namespace nn = torch::nn;
using testing::ElementsAre;

constexpr int64_t kFloat = 4;

layers::Layer plain(const std::string& name, torch::Tensor (*forward)(const torch::Tensor&)) {
  return {name, nullptr, [forward](const torch::Tensor& x, layers::Skips&) { return forward(x); }};
}

torch::Tensor mean_loss(const torch::Tensor& output, const torch::Tensor&) { return output.mean(); }

std::vector<int64_t> internals(const SequenceCosts& costs) {
  std::vector<int64_t> result;
  for (const LayerCost& layer : costs.layers) result.push_back(layer.internal_bytes);
  return result;
}

// 10 examples of 100, 200, ... numbers.
layers::Sequence chain() {
  layers::Sequence sequence;
  sequence.layers = {
      layers::layer_of("wide", nn::Linear(100, 200)),
      plain("relu", [](const torch::Tensor& x) { return torch::relu(x); }),
      plain("drop", [](const torch::Tensor& x) { return layers::drop(x, 0.5, true); }),
      plain("flat", [](const torch::Tensor& x) { return x.flatten(1); }),
      layers::layer_of("narrow", nn::Linear(200, 50)),
  };
  sequence.loss = mean_loss;
  return sequence;
}

TEST(MeasureLayers, CountsWhatBackwardKeeps) {
  const auto costs = measure_layers(chain(), torch::rand({10, 100}), {});
  EXPECT_EQ(costs.kind, "measured");
  EXPECT_EQ(costs.batch, 10);
  EXPECT_EQ(costs.input_bytes, 10 * 100 * kFloat);
  // wide keeps its input; relu its output, not its input; drop its mask, and relu's output is its input;
  // flat nothing; narrow its input. Of the loss the number itself is left.
  const int64_t wide = 10 * 200 * kFloat;
  EXPECT_THAT(internals(costs), ElementsAre(10 * 100 * kFloat, 0, 2 * wide, 0, wide + kFloat));
  EXPECT_EQ(costs.layers[0].parameter_bytes, (100 * 200 + 200) * kFloat);
  EXPECT_EQ(costs.layers[0].output_bytes, wide);
  EXPECT_EQ(costs.layers[0].flops, 2.0 * 10 * 100 * 200);
  EXPECT_EQ(costs.layers[1].flops, 0);
  for (const auto& layer : costs.layers)
    EXPECT_TRUE(layer.forward_s > 0 && layer.backward_s > 0) << layer.name;
}

TEST(MeasureLayers, LeavesTheModelAsItWas) {
  layers::Sequence sequence;
  nn::Sequential modules(nn::Conv2d(3, 4, 3), layers::BatchNorm2d(4), nn::BatchNorm2d(4));
  sequence.layers = layers::layers_of(modules);
  sequence.loss = mean_loss;
  std::vector<torch::Tensor> before;
  for (const auto& buffer : modules->buffers()) before.push_back(buffer.clone());
  modules->parameters()[0].mutable_grad() = torch::ones_like(modules->parameters()[0]);
  measure_layers(sequence, torch::rand({2, 3, 8, 8}), {});
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(torch::equal(before[i], modules->buffers()[i]));
  EXPECT_TRUE((modules->parameters()[0].grad() == 1).all().item<bool>());
  EXPECT_FALSE(modules->parameters()[1].grad().defined());
}

TEST(DescribeLayers, RefusesWhatIsNoSequence) {
  EXPECT_THROW(measure_layers({}, torch::rand({1}), {}), InputError);
}

TEST(MeasureFlops, IsANumber) { EXPECT_TRUE(std::isnormal(measure_flops_per_s())); }

}  // namespace
}  // namespace entrain::pipeline
