#include "entrain/models/lstm.h"

#include "entrain/models/sequential.h"
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
    return loss_of(decoder_(std::get<0>(lstm_(embedding_(batch.input)))), batch.target);
  }

  layers::Sequence sequence() override {
    std::vector<layers::Layer> result{layers::layer_of("embedding", embedding_)};
    for (int64_t i = 0; i < options_.layers; ++i) result.push_back(lstm_layer(i));
    result.push_back(layers::layer_of("decoder", decoder_));
    return {std::move(result), loss_of};
  }

  int64_t classes() const override { return options_.vocabulary; }

  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override {
    return synthetic_text(batch_size, options_.sequence, options_.vocabulary, generator);
  }

 private:
  static torch::Tensor loss_of(const torch::Tensor& logits, const torch::Tensor& target) {
    return nn::functional::cross_entropy(logits.flatten(0, 1), target.flatten());
  }

  // torch's module runs all layers in one call; this runs one of them, with its four parameters.
  layers::Layer lstm_layer(int64_t i) {
    const auto all = lstm_->named_parameters();
    auto module = std::make_shared<nn::Module>();
    std::vector<torch::Tensor> own;
    for (const char* kind : {"weight_ih_l", "weight_hh_l", "bias_ih_l", "bias_hh_l"}) {
      const std::string name = kind + std::to_string(i);
      own.push_back(module->register_parameter(name, all[name]));
    }
    return {"lstm.l" + std::to_string(i), module, [own](const torch::Tensor& x, layers::Skips&) {
              const auto zero = torch::zeros({1, x.size(0), own[1].size(1)}, x.options());
              return std::get<0>(torch::lstm(x, {zero, zero}, own, true, 1, 0, false, false, true));
            }};
  }

  LstmOptions options_;
  nn::Embedding embedding_{nullptr};
  nn::LSTM lstm_{nullptr};
  nn::Linear decoder_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_lstm(const LstmOptions& options) { return std::make_shared<Lstm>(options); }

}  // namespace entrain::models
