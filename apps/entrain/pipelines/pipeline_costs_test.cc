// Costs of the zoo's layers: what is estimated against what is measured.
#include <gtest/gtest.h>
#include <torch/version.h>

#include <algorithm>

#include "entrain/models/amoebanet.h"
#include "entrain/models/blueprint.h"
#include "entrain/models/registry.h"
#include "entrain/pipeline/profile/layer_estimate.h"
#include "entrain/pipeline/profile/layer_profile.h"
#include "entrain/pipeline/profile/memory_watch.h"

namespace entrain::pipeline {
namespace {

TEST(DescribeLayers, JoinsSkipsAndTies) {
  const auto model = models::make_model("unet-small", 1);
  auto generator = at::detail::createCPUGenerator(2);
  const auto batch = model->synthetic(2, generator);
  const auto costs = measure_layers(model->sequence(), batch.input, batch.target);
  ASSERT_EQ(costs.skips.size(), 3u);
  for (const Need& skip : costs.skips) {
    EXPECT_LT(skip.from, skip.to);
    EXPECT_GT(skip.bytes, 0);
  }
  const auto tied = models::make_model("transformer-small", 1);
  const auto tokens = tied->synthetic(2, generator);
  const auto described = describe_layers(tied->sequence(), tokens.input);
  ASSERT_FALSE(described.ties.empty());
  EXPECT_EQ(described.ties[0].to, static_cast<int>(described.layers.size()) - 1);
  int64_t bytes = 0;
  for (const auto& parameter : tied->parameters()) bytes += static_cast<int64_t>(parameter.nbytes());
  EXPECT_EQ(described.parameter_bytes(), bytes);
}

// Parameters, outputs, skips and FLOPs are the same; what is kept is nearly.
void expect_agreement(const std::string& name) {
  const auto model = models::make_model(name, 1), blueprint = models::make_blueprint(name);
  auto generator = at::detail::createCPUGenerator(2);
  const auto batch = model->synthetic(4, generator), planned = batch.to(torch::kMeta);
  MeasureOptions once;
  once.repeats = 1;
  const auto measured = measure_layers(model->sequence(), batch.input, batch.target, once);
  const auto estimated = estimate_layers(blueprint->sequence(), planned.input, planned.target, 1e9);
  ASSERT_EQ(estimated.layers.size(), measured.layers.size());
  int64_t kept = 0, kept_estimated = 0;
  for (size_t i = 0; i < measured.layers.size(); ++i) {
    const LayerCost &a = measured.layers[i], &b = estimated.layers[i];
    EXPECT_EQ(b.name, a.name);
    EXPECT_EQ(b.parameter_bytes, a.parameter_bytes) << name << " " << a.name;
    EXPECT_EQ(b.output_bytes, a.output_bytes) << name << " " << a.name;
    EXPECT_DOUBLE_EQ(b.flops, a.flops) << name << " " << a.name;
    kept += a.internal_bytes;
    kept_estimated += b.internal_bytes;
  }
  EXPECT_NEAR(static_cast<double>(kept_estimated), static_cast<double>(kept),
              0.05 * static_cast<double>(kept))
      << name;
}

TEST(EstimateLayers, AgreesWithMeasuring) {
  for (const auto* name : {"vgg16-small", "resnet20-small", "resnet50-small", "bert-small",
                           "transformer-small", "unet-small", "amoebanet-d-small", "cnn7-small"}) {
    expect_agreement(name);
  }
}

TEST(EstimateLayers, AgreesWithMeasuringAnLstm) {
  if (TORCH_VERSION_MAJOR >= 2) {
    GTEST_SKIP() << "libtorch 2 computes an LSTM by oneDNN, which keeps twice what meta tensors show";
  }
  expect_agreement("lstm-small");
}

TEST(EstimateLayers, TakesNoMemoryForTheLargest) {
  const auto blueprint = models::make_blueprint("unet:24,160");  // 31 GB of parameters
  auto generator = at::detail::createCPUGenerator(2);
  const auto batch = blueprint->synthetic(1, generator).to(torch::kMeta);
  const auto costs = estimate_layers(blueprint->sequence(), batch.input, batch.target, 1e12);
  EXPECT_EQ(costs.kind, "estimated");
  EXPECT_NEAR(static_cast<double>(costs.parameter_bytes()), 31.2e9, 0.1e9);
  EXPECT_GT(costs.flops(), 1e12);
}

// One cell, one micro-batch, everything kept: an ordinary step. Backward's own passing values come on top:
// not of a model of 4 channels (amoebanet-d-small), of which oneDNN makes 16 meanwhile on some processors.
TEST(PredictedMemory, IsAStepsPeak) {
  for (const std::string name : {"vgg16-32", "resnet20", "transformer-32", "unet:2,16", "amoebanet-d"}) {
    const MemoryWatch watch;
    const auto model = name == "amoebanet-d"
                           ? models::make_amoebanet_d({.layers = 3, .filters = 64, .side = 32, .classes = 10})
                           : models::make_model(name, 1);
    auto generator = at::detail::createCPUGenerator(2);
    const auto batch = model->synthetic(4, generator);
    const layers::Sequence sequence = model->sequence();
    MeasureOptions once;
    once.repeats = 1;
    FitRequest request = request_for(measure_layers(sequence, batch.input, batch.target, once));
    request.batch = 4;
    request.devices = {{}};
    const int layers = static_cast<int>(request.layers.size());
    const auto plan = predict(request, {1, 1, "gpipe", 1, Remat::kNever, {layers}});
    sequence.loss(layers::forward(sequence, batch.input), batch.target).backward();  // makes the gradients
    MemoryWatch step;
    const int64_t before = watch.live();
    sequence.loss(layers::forward(sequence, batch.input), batch.target).backward();
    const double peak = static_cast<double>(before + step.peak());
    // While a gradient is added to the sum it is there once more.
    double largest = 0;
    for (const auto& parameter : model->parameters()) {
      largest = std::max(largest, static_cast<double>(parameter.nbytes()));
    }
    const double predicted = static_cast<double>(plan.memory[0].total()) + largest;
    EXPECT_NEAR(predicted, peak, 0.15 * peak) << name;
  }
}

}  // namespace
}  // namespace entrain::pipeline
