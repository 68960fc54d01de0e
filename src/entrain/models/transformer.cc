#include "entrain/models/transformer.h"

#include <algorithm>
#include <cmath>

#include "entrain/base/error.h"
#include "entrain/layers/pass.h"
#include "entrain/models/sequential.h"
#include "entrain/models/synthetic.h"

namespace entrain::models {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

constexpr double kDeviation = 0.02;

nn::LayerNorm layer_norm(int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width})); }

nn::Linear linear_of(int64_t in, int64_t out, double deviation) {
  nn::Linear result(in, out);
  nn::init::normal_(result->weight, 0, deviation);
  nn::init::zeros_(result->bias);
  return result;
}

nn::Embedding table_of(int64_t rows, int64_t width) {
  nn::Embedding result(rows, width);
  nn::init::normal_(result->weight, 0, kDeviation);
  return result;
}

struct EmbedImpl : nn::Module {
  explicit EmbedImpl(const TransformerOptions& options)
      : dropout(options.dropout),
        tokens(register_module("tokens", table_of(options.vocabulary, options.hidden))),
        positions(register_module("positions", table_of(options.sequence, options.hidden))) {}

  torch::Tensor forward(const torch::Tensor& input) {
    const auto x = tokens(input);  // apart: the order of use is part of G
    return layers::drop(x + positions(torch::arange(input.size(1), input.options())), dropout, is_training());
  }

  double dropout;
  nn::Embedding tokens, positions;
};
TORCH_MODULE(Embed);

// x + attention(norm(x)), then x + feed-forward(norm(x)).
struct BlockImpl : nn::Module {
  explicit BlockImpl(const TransformerOptions& options) : heads(options.heads), dropout(options.dropout) {
    const int64_t h = options.hidden;
    const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers));
    norm1 = register_module("norm1", layer_norm(h));
    qkv = register_module("qkv", linear_of(h, 3 * h, kDeviation));
    output = register_module("output", linear_of(h, h, residual));
    norm2 = register_module("norm2", layer_norm(h));
    up = register_module("up", linear_of(h, 4 * h, kDeviation));
    down = register_module("down", linear_of(4 * h, h, residual));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = x + drop(output(attend(norm1(x))));
    return y + drop(down(torch::gelu(up(norm2(y)))));
  }

  torch::Tensor attend(const torch::Tensor& x) {
    const int64_t n = x.size(0), length = x.size(1), width = x.size(2) / heads;
    // (N, length, 3 h) to three of (N, heads, length, width).
    const auto parts = qkv(x).view({n, length, 3, heads, width}).permute({2, 0, 3, 1, 4}).unbind(0);
    const auto later = torch::ones({length, length}, x.options().dtype(torch::kBool)).triu(1);
    const auto scores =
        torch::matmul(parts[0], parts[1].transpose(2, 3)) / std::sqrt(static_cast<double>(width));
    const auto shares = torch::softmax(scores.masked_fill(later, -INFINITY), -1);
    return torch::matmul(drop(shares), parts[2]).transpose(1, 2).reshape(x.sizes());
  }

  torch::Tensor drop(const torch::Tensor& x) const { return layers::drop(x, dropout, is_training()); }

  int64_t heads;
  double dropout;
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  nn::Linear qkv{nullptr}, output{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

class Transformer : public SequentialModel {
 public:
  explicit Transformer(const TransformerOptions& options) : options_(options) {
    embedding_ = register_module("embedding", Embed(options));
    for (int64_t i = 0; i < options.layers; ++i) blocks_->push_back(Block(options));
    register_module("blocks", blocks_);
    norm_ = register_module("norm", layer_norm(options.hidden));
  }

  layers::Sequence sequence() override {
    std::vector<layers::Layer> result = layers_of("blocks", blocks_);
    result.insert(result.begin(), layers::layer_of("embedding", embedding_));
    layers::Layer head{"head", norm_.ptr(),
                       [norm = norm_, tokens = embedding_->tokens, cap = options_.logit_cap](
                           const torch::Tensor& x, layers::Skips&) mutable {
                         const auto y = norm(x);
                         return cap * torch::tanh(F::linear(y, tokens->weight) / cap);
                       }};
    head.borrowed = {embedding_->tokens->weight};
    result.push_back(std::move(head));
    return {std::move(result), [](const torch::Tensor& logits, const torch::Tensor& target) {
              return F::cross_entropy(logits.flatten(0, 1), target.flatten());
            }};
  }

  int64_t classes() const override { return options_.vocabulary; }

  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override {
    return synthetic_text(batch_size, options_.sequence, options_.vocabulary, generator);
  }

 private:
  TransformerOptions options_;
  Embed embedding_{nullptr};
  nn::Sequential blocks_;
  nn::LayerNorm norm_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_transformer(TransformerOptions options) {
  if (options.heads == 0) options.heads = std::max<int64_t>(1, options.hidden / 64);
  if (options.hidden % options.heads != 0) {
    bad_input("transformer: {} heads do not divide a hidden size of {}", options.heads, options.hidden);
  }
  return std::make_shared<Transformer>(options);
}

}  // namespace entrain::models
