#include "entrain/pipeline/run/pipeline_subjects.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "entrain/base/error.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/models/resnet.h"
#include "entrain/models/transformer.h"
#include "entrain/models/unet.h"

namespace entrain::pipeline {
namespace {

constexpr int64_t kBatch = 33;  // cut unevenly by every M above 1

struct CastImpl : torch::nn::Module {
  explicit CastImpl(torch::ScalarType type) : to_type(type) {}
  torch::Tensor forward(const torch::Tensor& x) { return x.to(to_type); }
  torch::ScalarType to_type;
};
TORCH_MODULE(Cast);

class Mlp : public models::Model {
 public:
  // The layers in the middle, and what they compute, are of type `middle`.
  explicit Mlp(torch::ScalarType middle = torch::kFloat) {
    for (int i = 0; i < 16; ++i) {
      if (i == 6 && middle != torch::kFloat) modules_->push_back(Cast(middle));
      if (i == 10 && middle != torch::kFloat) modules_->push_back(Cast(torch::kFloat));
      torch::nn::Linear linear(12, 12);
      if (i >= 6 && i < 10) linear->to(middle);
      modules_->push_back(linear);
      modules_->push_back(torch::nn::Tanh());
    }
    register_module("modules", modules_);
  }
  torch::Tensor loss(const models::Batch& batch) override {
    return torch::mse_loss(modules_->forward(batch.input), batch.target);
  }
  layers::Sequence sequence() override {
    return {layers::layers_of(modules_),
            [](const auto& output, const auto& target) { return torch::mse_loss(output, target); }};
  }
  models::Batch synthetic(int64_t size, torch::Generator& generator) const override {
    const auto x = torch::rand({size, 12}, generator);
    return {x, x.roll(1, 1) * 0.5};
  }

 private:
  torch::nn::Sequential modules_;
};

// Words to words, with a table at the front whose gradient may be sparse and a matrix at the end that may be
// the same one.
class Words : public models::Model {
 public:
  enum class Table { kSparse, kTied };
  explicit Words(Table kind) : tied_(kind == Table::kTied) {
    table_ = register_module(
        "table",
        torch::nn::Embedding(torch::nn::EmbeddingOptions(kWords, 12).sparse(kind == Table::kSparse)));
    for (int i = 0; i < 6; ++i) {
      middle_->push_back(torch::nn::Linear(12, 12));
      middle_->push_back(torch::nn::Tanh());
    }
    register_module("middle", middle_);
    if (!tied_) last_ = register_module("last", torch::nn::Linear(12, kWords));
  }
  torch::Tensor loss(const models::Batch& batch) override {
    return sequence().loss(layers::forward(sequence(), batch.input), batch.target);
  }
  layers::Sequence sequence() override {
    std::vector<layers::Layer> layers = {layers::layer_of("table", table_)};
    for (auto& layer : layers::layers_of(middle_)) layers.push_back(std::move(layer));
    if (tied_) {
      const auto table = table_->weight;
      layers.push_back({.name = "last",
                        .module = nullptr,
                        .forward = [table](const auto& x, auto&) { return x.matmul(table.t()); },
                        .borrowed = {table}});
    } else {
      layers.push_back(layers::layer_of("last", last_));
    }
    return {std::move(layers), [](const auto& output, const auto& target) {
              return torch::nn::functional::cross_entropy(output, target);
            }};
  }
  models::Batch synthetic(int64_t size, torch::Generator& generator) const override {
    const auto words = torch::randint(0, kWords, {size}, generator, torch::kLong);
    return {words, words.roll(1, 0)};
  }

 private:
  static constexpr int64_t kWords = 40;
  bool tied_;
  torch::nn::Embedding table_ = nullptr;
  torch::nn::Sequential middle_;
  torch::nn::Linear last_ = nullptr;
};

std::shared_ptr<models::Model> make(const std::string& name) {
  torch::manual_seed(7);
  const models::TransformerOptions transformer{
      .layers = 14, .hidden = 16, .heads = 2, .vocabulary = 30, .sequence = 6};
  if (name == "mlp") return std::make_shared<Mlp>();
  if (name == "mlp_with_doubles") return std::make_shared<Mlp>(torch::kDouble);
  if (name == "mlp_with_bfloat16") return std::make_shared<Mlp>(torch::kBFloat16);
  if (name == "tied_words") return std::make_shared<Words>(Words::Table::kTied);
  if (name == "sparse_words") return std::make_shared<Words>(Words::Table::kSparse);
  if (name == "transformer_without_dropout") return models::make_transformer(transformer);
  if (name == "transformer") {
    auto options = transformer;
    options.dropout = 0.2;
    return models::make_transformer(options);
  }
  if (name == "unet") return models::make_unet({.convolutions = 2, .channels = 4, .levels = 2, .side = 8});
  if (name == "resnet") {
    // In double: with one example a micro-batch, batch norm over four values a channel makes the order in
    // which floats are summed grow to 1e-4 within three steps, pipeline or not.
    auto model = models::make_cifar_resnet({.blocks = 5, .width = 4, .side = 8});
    model->to(torch::kDouble);
    return model;
  }
  fail("no such subject: {}", name);
}

void expect_close(const Tensors& actual, const Tensors& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double scale = std::max(1e-3, expected[i].abs().max().item<double>());
    const double off = (actual[i] - expected[i]).abs().max().item<double>();
    EXPECT_LT(off / scale, 1e-5) << what << ", tensor " << i;
  }
}

}  // namespace

std::vector<std::string> subject_names() { return {"mlp", "unet", "transformer", "resnet"}; }

Subject make_subject(const std::string& name) {
  const auto model = make(name);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{9});
  models::Batch batch = model->synthetic(kBatch, generator);
  if (batch.input.is_floating_point()) batch.input = batch.input.to(model->parameters()[0].scalar_type());
  return {name, [name] { return make(name); }, batch, static_cast<int>(model->sequence().layers.size())};
}

Tensors gradients_of(const torch::nn::Module& model) {
  Tensors result;
  for (const auto& parameter : model.parameters()) result.push_back(parameter.grad().clone());
  return result;
}

Tensors state_of(const torch::nn::Module& model) {
  Tensors result;
  for (const auto& parameter : model.parameters()) result.push_back(parameter.detach().clone());
  for (const auto& buffer : model.buffers()) result.push_back(buffer.to(torch::kDouble).clone());
  return result;
}

Outcome reference(const Subject& subject, int micro_batches) {
  const auto model = subject.make();
  const auto sequence = model->sequence();
  layers::defer_batch_norm(*model, true);
  torch::optim::SGD optimizer(model->parameters(), kRate);
  Outcome outcome;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    double loss = 0;
    for (int m = 0; m < micro_batches; ++m) {
      const int64_t begin = kBatch * m / micro_batches, end = kBatch * (m + 1) / micro_batches;
      const auto part = subject.batch.narrow(begin, end - begin);
      layers::Skips skips;
      torch::Tensor x = part.input;
      for (int layer = 0; layer < subject.layers; ++layer) {
        const layers::Pass pass({kSeed, step, layer, m});
        x = sequence.layers[layer].forward(x, skips);
      }
      const auto weighted = sequence.loss(x, part.target) * (static_cast<double>(end - begin) / kBatch);
      weighted.backward();
      loss += weighted.item<double>();
    }
    outcome.losses.push_back(loss);
    outcome.gradients = gradients_of(*model);
    optimizer.step();
    layers::commit_batch_norm(*model);
  }
  outcome.state = state_of(*model);
  return outcome;
}

Options options_for(const Subject& subject, int devices, int micro_batches, const std::string& schedule,
                    Remat remat) {
  Options options;
  options.devices = devices;
  options.chunks = schedule == "interleaved" && subject.layers >= 2 * devices ? 2 : 1;
  options.micro_batches = micro_batches;
  options.schedule = schedule;
  options.remat = remat;
  options.seed = kSeed;
  options.threads_per_cell = 1;
  const int cells = devices * options.chunks;
  for (int c = 0; c < cells; ++c) {
    options.balance.push_back(subject.layers * (c + 1) / cells - subject.layers * c / cells);
  }
  return options;
}

std::string describe(const Options& options) {
  return fmt::format("K={} M={} {} x{} {}", options.devices, options.micro_batches, options.schedule,
                     options.chunks, remat_name(options.remat));
}

void for_each_setting(const Subject& subject,
                      const std::function<void(const Options&, const Outcome& expected)>& check) {
  for (const int micro_batches : {1, 2, 5, 8, 32}) {
    const Outcome expected = reference(subject, micro_batches);
    for (const int devices : {1, 2, 3, 4, 8}) {
      for (const auto& schedule : schedule_names()) {
        for (const auto& remat : remat_names()) {
          check(options_for(subject, devices, micro_batches, schedule, parse_remat(remat)), expected);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

void expect_same(const Outcome& outcome, const Outcome& expected, const std::string& what) {
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(outcome.losses[step], expected.losses[step], 1e-5 * std::abs(expected.losses[step]))
        << what << ", step " << step;
  }
  expect_close(outcome.gradients, expected.gradients, what + ", gradients");
  expect_close(outcome.state, expected.state, what + ", state");
}

}  // namespace entrain::pipeline
