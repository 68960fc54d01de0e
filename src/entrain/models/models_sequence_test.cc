// The zoo as sequences of layers: what a pipeline will cut.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <map>

#include "entrain/models/registry.h"
#include "entrain/models/transformer.h"

namespace entrain::models {
namespace {

std::vector<std::string> sequential_names() {
  std::vector<std::string> result;
  for (const std::string& name : names()) {
    if (name.ends_with("-small") && name != "ncf-sparse-small") result.push_back(name);
  }
  return result;
}

Batch batch_for(const Model& model) {
  auto generator = at::detail::createCPUGenerator(2);
  return model.synthetic(6, generator);
}

torch::Tensor sequence_loss(Model& model, const Batch& batch) {
  const layers::Sequence sequence = model.sequence();
  return sequence.loss(layers::forward(sequence, batch.input), batch.target);
}

class SequentialZoo : public testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<Model> model_ = make_model(GetParam(), 1);
};

TEST_P(SequentialZoo, LayersComputeTheModelsLossAndGradients) {
  const auto other = make_model(GetParam(), 1);
  const Batch batch = batch_for(*model_);
  for (const bool training : {true, false}) {
    model_->train(training);
    other->train(training);
    const auto expected = model_->loss(batch), got = sequence_loss(*other, batch);
    EXPECT_NEAR(got.item<double>(), expected.item<double>(), 1e-6);
    expected.backward();
    got.backward();
  }
  const auto expected = model_->named_parameters(), got = other->named_parameters();
  for (const auto& item : expected) {
    const auto want = item.value().grad();
    EXPECT_LE((got[item.key()].grad() - want).norm().item<double>(), 1e-5 * want.norm().item<double>() + 1e-7)
        << item.key();
  }
}

TEST_P(SequentialZoo, SkipsAreLeftOnceAndTakenOnce) {
  EXPECT_NO_THROW(layers::check_skips(model_->sequence().layers));
}

// A layer may only be cut off with all it leaves and takes declared.
TEST_P(SequentialZoo, SkipsAreThoseDeclared) {
  const layers::Sequence sequence = model_->sequence();
  torch::Tensor x = batch_for(*model_).input;
  layers::Skips skips;
  for (const layers::Layer& layer : sequence.layers) {
    layers::Skips own;
    for (const std::string& name : layer.pops) own.stash(name, skips.pop(name));
    x = layer.forward(x, own);
    for (const std::string& name : layer.stashes) skips.stash(name, own.pop(name));
    EXPECT_TRUE(own.empty()) << layer.name;
  }
  EXPECT_TRUE(skips.empty());
}

TEST_P(SequentialZoo, EveryParameterAndBufferBelongsToOneLayer) {
  std::map<const void*, int> owners;
  std::set<std::string> layer_names;
  const layers::Sequence sequence = model_->sequence();
  for (const layers::Layer& layer : sequence.layers) {
    EXPECT_TRUE(layer_names.insert(layer.name).second) << layer.name;
    if (!layer.module) continue;
    for (const auto& tensor : layer.module->parameters()) ++owners[tensor.unsafeGetTensorImpl()];
    for (const auto& tensor : layer.module->buffers()) ++owners[tensor.unsafeGetTensorImpl()];
  }
  size_t count = 0;
  for (const auto& items : {model_->named_parameters(), model_->named_buffers()}) {
    for (const auto& item : items) {
      EXPECT_EQ(owners[item.value().unsafeGetTensorImpl()], 1) << item.key();
      ++count;
    }
  }
  EXPECT_EQ(owners.size(), count);
  for (const layers::Layer& layer : sequence.layers) {
    for (const auto& tensor : layer.borrowed)
      EXPECT_EQ(owners[tensor.unsafeGetTensorImpl()], 1) << layer.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, SequentialZoo, testing::ValuesIn(sequential_names()), [](const auto& param) {
  std::string name = param.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

class Learner : public testing::TestWithParam<std::string> {};

TEST_P(Learner, FitsABatch) {
  const auto model = make_model(GetParam(), 1);
  const Batch batch = batch_for(*model);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  const double first = model->loss(batch).item<double>();
  for (int step = 0; step < 15; ++step) {
    optimizer.zero_grad();
    model->loss(batch).backward();
    optimizer.step();
  }
  EXPECT_LT(model->loss(batch).item<double>(), 0.7 * first);
}

INSTANTIATE_TEST_SUITE_P(Zoo, Learner,
                         testing::Values("transformer-small", "unet-small", "amoebanet-d-small",
                                         "resnet101-small"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Transformer, SeesNoLaterToken) {
  const auto model = make_model("transformer-small", 1);
  const layers::Sequence sequence = model->sequence();
  const auto input = batch_for(*model).input;
  auto changed = input.clone();
  changed.select(1, 10).fill_(3);
  const auto a = layers::forward(sequence, input), b = layers::forward(sequence, changed);
  EXPECT_TRUE(torch::allclose(a.narrow(1, 0, 10), b.narrow(1, 0, 10)));
  EXPECT_FALSE(torch::allclose(a.select(1, 10), b.select(1, 10)));
}

TEST(Transformer, Of128BlocksStaysFinite) {
  torch::manual_seed(1);
  const auto model = make_transformer(
      {.layers = 128, .hidden = 16, .heads = 2, .vocabulary = 50, .sequence = 8, .dropout = 0.1});
  const Batch batch = batch_for(*model);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.003));
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const auto loss = model->loss(batch);
    loss.backward();
    EXPECT_LT(loss.item<double>(), 1.5 * std::log(50));
    EXPECT_TRUE(std::isfinite(torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0)));
    optimizer.step();
  }
}

// At the start the residual stream is about as large after many blocks as after few.
TEST(Transformer, DepthDoesNotRaiseTheStream) {
  const auto last_state = [](int64_t layers) {
    torch::manual_seed(1);
    const auto model = make_transformer({.layers = layers, .hidden = 32, .vocabulary = 50, .sequence = 8});
    layers::Sequence sequence = model->sequence();
    sequence.layers.pop_back();
    return layers::forward(sequence, batch_for(*model).input).std().item<double>();
  };
  EXPECT_LT(last_state(128), 1.5 * last_state(4));
}

}  // namespace
}  // namespace entrain::models
