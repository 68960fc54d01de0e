#include "entrain/models/bert.h"

#include <algorithm>
#include <cmath>

#include "entrain/layers/pass.h"
#include "entrain/models/sequential.h"
#include "entrain/models/synthetic.h"

namespace entrain::models {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

constexpr int64_t kMask = 0;

nn::LayerNorm bert_norm(int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width}).eps(1e-12)); }

// One encoder layer: attention and a feed-forward network, each added to its input and then normalized.
struct EncoderImpl : nn::Module {
  explicit EncoderImpl(const BertOptions& options) : heads(options.heads), dropout(options.dropout) {
    const int64_t h = options.hidden;
    query = register_module("query", nn::Linear(h, h));
    key = register_module("key", nn::Linear(h, h));
    value = register_module("value", nn::Linear(h, h));
    output = register_module("output", nn::Linear(h, h));
    norm1 = register_module("norm1", bert_norm(h));
    up = register_module("up", nn::Linear(h, 4 * h));
    down = register_module("down", nn::Linear(4 * h, h));
    norm2 = register_module("norm2", bert_norm(h));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = norm1(x + drop(output(attend(x))));
    return norm2(y + drop(down(torch::gelu(up(y)))));
  }

  torch::Tensor attend(const torch::Tensor& x) {
    const int64_t n = x.size(0), length = x.size(1), width = x.size(2) / heads;
    const auto split = [&](const torch::Tensor& t) {
      return t.view({n, length, heads, width}).transpose(1, 2);
    };
    const auto q = split(query(x)), k = split(key(x)), v = split(value(x));
    const auto scores = torch::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(width));
    return torch::matmul(drop(torch::softmax(scores, -1)), v).transpose(1, 2).reshape(x.sizes());
  }

  torch::Tensor drop(const torch::Tensor& x) const { return layers::drop(x, dropout, is_training()); }

  int64_t heads;
  double dropout;
  nn::Linear query{nullptr}, key{nullptr}, value{nullptr}, output{nullptr}, up{nullptr}, down{nullptr};
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
};
TORCH_MODULE(Encoder);

class Bert : public Model {
 public:
  explicit Bert(const BertOptions& options) : options_(options) {
    const int64_t h = options.hidden;
    tokens_ = register_module("tokens", nn::Embedding(options.vocabulary, h));
    positions_ = register_module("positions", nn::Embedding(options.positions, h));
    segments_ = register_module("segments", nn::Embedding(2, h));
    norm_ = register_module("norm", bert_norm(h));
    for (int64_t i = 0; i < options.layers; ++i) encoder_->push_back(Encoder(options));
    register_module("encoder", encoder_);
    transform_ = register_module("transform", nn::Linear(h, h));
    transform_norm_ = register_module("transform_norm", bert_norm(h));
    decoder_bias_ = register_parameter("decoder_bias", torch::zeros({options.vocabulary}));
    initialize();
  }

  torch::Tensor loss(const Batch& batch) override {
    const auto x = encoder_->forward(embed(batch.input));
    return loss_of(decode(masked(x, batch.target)), batch.target);
  }

  // Which positions are masked is the target's to say, so that here, unlike in loss(), all are decoded: the
  // same numbers for about 7 times the work in the last layer.
  layers::Sequence sequence() override {
    std::vector<layers::Layer> result = layers_of("encoder", encoder_);
    result.insert(result.begin(), {"embedding",
                                   group({{"tokens", tokens_.ptr()},
                                          {"positions", positions_.ptr()},
                                          {"segments", segments_.ptr()},
                                          {"norm", norm_.ptr()}}),
                                   [this](const torch::Tensor& x, layers::Skips&) { return embed(x); }});
    layers::Layer head{"head",
                       group({{"transform", transform_.ptr()}, {"transform_norm", transform_norm_.ptr()}}),
                       [this](const torch::Tensor& x, layers::Skips&) { return decode(x); }};
    head.module->register_parameter("decoder_bias", decoder_bias_);
    head.borrowed = {tokens_->weight};
    result.push_back(std::move(head));
    return {std::move(result), [](const torch::Tensor& logits, const torch::Tensor& target) {
              return loss_of(masked(logits, target), target);
            }};
  }

  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override {
    const int64_t length = options_.sequence;
    const int64_t masks = std::max<int64_t>(1, std::llround(0.15 * static_cast<double>(length)));
    auto tokens = synthetic_tokens(batch_size, length, options_.vocabulary - 1, generator) + 1;
    const auto positions = std::get<1>(torch::rand({batch_size, length}, generator).topk(masks, 1));
    const auto labels = tokens.gather(1, positions);
    return {tokens.scatter(1, positions, kMask), torch::stack({positions, labels}, 1)};
  }

 private:
  // Segment 0 is the first half of the sequence, segment 1 the second.
  torch::Tensor embed(const torch::Tensor& input) {
    const auto place = torch::arange(input.size(1), input.options());
    const auto segment = (place * 2 >= input.size(1)).to(torch::kInt64);
    auto x = tokens_(input);  // one statement each: the order of use is part of G
    x = x + positions_(place);
    return norm_(x + segments_(segment));
  }

  // States (N, length, hidden) to logits of the tokens.
  torch::Tensor decode(const torch::Tensor& x) {
    const auto y = transform_norm_(torch::gelu(transform_(x)));
    return F::linear(y, tokens_->weight, decoder_bias_);
  }

  // (N, length, w) to (N, k, w): at the positions that the target names.
  static torch::Tensor masked(const torch::Tensor& x, const torch::Tensor& target) {
    return x.gather(1, target.select(1, 0).unsqueeze(2).expand({-1, -1, x.size(2)}));
  }

  static torch::Tensor loss_of(const torch::Tensor& logits, const torch::Tensor& target) {
    return F::cross_entropy(logits.flatten(0, 1), target.select(1, 1).flatten());
  }

  // Normal with deviation 0.02, as published; zero biases.
  void initialize() {
    torch::NoGradGuard no_grad;
    for (auto& item : named_parameters()) {
      if (item.value().dim() > 1) {
        item.value().normal_(0, 0.02);
      } else if (item.key().find("norm") == std::string::npos) {
        item.value().zero_();
      }
    }
  }

  BertOptions options_;
  nn::Embedding tokens_{nullptr}, positions_{nullptr}, segments_{nullptr};
  nn::LayerNorm norm_{nullptr}, transform_norm_{nullptr};
  nn::Sequential encoder_;
  nn::Linear transform_{nullptr};
  torch::Tensor decoder_bias_;
};

}  // namespace

std::shared_ptr<Model> make_bert(const BertOptions& options) { return std::make_shared<Bert>(options); }

}  // namespace entrain::models
