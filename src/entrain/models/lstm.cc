#include "entrain/models/lstm.h"

#include "entrain/models/synthetic.h"

namespace entrain::models {
namespace {

namespace nn = torch::nn;

class Lstm : public Model {
 public:
  explicit Lstm(const LstmOptions& options) : options_(options) {
    const int64_t h = options.hidden;
    embedding_ = register_module("embedding", nn::Embedding(options.vocabulary, h));
    lstm_ =
        register_module("lstm", nn::LSTM(nn::LSTMOptions(h, h).num_layers(options.layers).batch_first(true)));
    decoder_ = register_module("decoder", nn::Linear(h, options.vocabulary));
  }

  torch::Tensor loss(const Batch& batch) override {
    const auto states = std::get<0>(lstm_(embedding_(batch.input)));
    return nn::functional::cross_entropy(decoder_(states).flatten(0, 1), batch.target.flatten());
  }

  int64_t classes() const override { return options_.vocabulary; }

  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override {
    const auto tokens = synthetic_tokens(batch_size, options_.sequence + 1, options_.vocabulary, generator);
    return {tokens.narrow(1, 0, options_.sequence).contiguous(),
            tokens.narrow(1, 1, options_.sequence).contiguous()};
  }

 private:
  LstmOptions options_;
  nn::Embedding embedding_{nullptr};
  nn::LSTM lstm_{nullptr};
  nn::Linear decoder_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_lstm(const LstmOptions& options) { return std::make_shared<Lstm>(options); }

}  // namespace entrain::models
