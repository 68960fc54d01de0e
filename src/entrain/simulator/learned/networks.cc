#include "entrain/simulator/learned/networks.h"

#include "entrain/base/error.h"

namespace entrain::simulator {
namespace {

namespace nn = torch::nn;
constexpr int64_t kMlpHidden = 128, kEmbedding = 32;

// Score = w . (12 published features).
class LinearNetwork final : public RankerNetwork {
 public:
  LinearNetwork() : RankerNetwork(kPublishedFeatures, 0) {
    out_ = register_module("out", nn::Linear(kPublishedFeatures, 1));
  }
  torch::Tensor forward(const StrategyBatch& batch) override {
    return out_(standardised(batch.inputs)).squeeze(1);
  }

 private:
  nn::Linear out_{nullptr};
};

// What both others start with: an MLP for each part, summed over a variable's parts: [B, variables, 32].
class PartNetwork : public RankerNetwork {
 protected:
  PartNetwork() : RankerNetwork(kPartWidth, kHostColumns + kGroupColumns) {
    hidden_ = register_module("part_hidden", nn::Linear(kPartWidth, kMlpHidden));
    out_ = register_module("part_out", nn::Linear(kMlpHidden, kEmbedding));
  }
  torch::Tensor variables(const StrategyBatch& batch) {
    const auto parts = out_(torch::relu(hidden_(standardised(batch.inputs))));
    const auto sums = torch::zeros({batch.size * batch.variables, kEmbedding}, parts.options());
    return sums.index_add(0, batch.slots, parts).view({batch.size, batch.variables, kEmbedding});
  }

 private:
  nn::Linear hidden_{nullptr}, out_{nullptr};
};

// A bidirectional LSTM of 3 layers over the variables in data-flow order; its final states make the score.
class RnnNetwork final : public PartNetwork {
 public:
  RnnNetwork() {
    constexpr int64_t kLayers = 3, kHidden = 128;
    lstm_ = register_module(
        "lstm",
        nn::LSTM(
            nn::LSTMOptions(kEmbedding, kHidden).num_layers(kLayers).bidirectional(true).batch_first(true)));
    score_ = register_module("score", nn::Linear(2 * kLayers * kHidden, 1));
  }
  torch::Tensor forward(const StrategyBatch& batch) override {
    const auto states = std::get<0>(std::get<1>(lstm_(variables(batch))));  // [2 layers, B, hidden]
    return score_(states.permute({1, 0, 2}).reshape({batch.size, -1})).squeeze(1);
  }

 private:
  nn::LSTM lstm_{nullptr};
  nn::Linear score_{nullptr};
};

// Graph attention, of one head k and edge j -> i:
//   h'_i = elu(sum over j of a_ij W h_j),  a_ij = softmax over j of leaky_relu(s . W h_j + d . W h_i)
class Attention final : public nn::Module {
 public:
  Attention(int64_t in, int64_t heads, int64_t width) : heads_(heads), width_(width) {
    project_ = register_module("project", nn::Linear(nn::LinearOptions(in, heads * width).bias(false)));
    const double bound = std::sqrt(6.0 / static_cast<double>(heads * width));
    source_ = register_parameter("source", torch::empty({heads, width}).uniform_(-bound, bound));
    target_ = register_parameter("target", torch::empty({heads, width}).uniform_(-bound, bound));
  }
  torch::Tensor forward(const torch::Tensor& nodes, const torch::Tensor& from, const torch::Tensor& to) {
    const int64_t b = nodes.size(0), n = nodes.size(1);
    const auto h = project_(nodes).view({b, n, heads_, width_});
    const auto logits =
        (h * source_).sum(-1).index_select(1, from) + (h * target_).sum(-1).index_select(1, to);
    // Clamped instead of shifted by the largest of each node: exp(30) is far from float's end.
    const auto weights = torch::exp(torch::leaky_relu(logits, 0.2).clamp(-30, 30));  // [B, edges, heads]
    const auto sums = torch::zeros({b, n, heads_}, h.options()).index_add(1, to, weights);
    const auto messages = h.index_select(1, from) * weights.unsqueeze(-1);
    const auto mixed = torch::zeros_like(h).index_add(1, to, messages) / sums.unsqueeze(-1);
    return torch::elu(mixed).view({b, n, heads_ * width_});
  }

 private:
  int64_t heads_, width_;
  nn::Linear project_{nullptr};
  torch::Tensor source_, target_;
};

class GatNetwork final : public PartNetwork {
 public:
  GatNetwork() {
    constexpr int64_t kHeads = 4, kWidth = 32;
    first_ = register_module("first", std::make_shared<Attention>(kEmbedding, kHeads, kWidth));
    second_ = register_module("second", std::make_shared<Attention>(kHeads * kWidth, kHeads, kWidth));
    hidden_ = register_module("hidden", nn::Linear(2 * kHeads * kWidth, kMlpHidden));
    score_ = register_module("score", nn::Linear(kMlpHidden, 1));
  }
  torch::Tensor forward(const StrategyBatch& batch) override {
    auto nodes = first_->forward(variables(batch), batch.from, batch.to);
    nodes = second_->forward(nodes, batch.from, batch.to);
    const auto pooled = torch::cat({nodes.mean(1), std::get<0>(nodes.max(1))}, 1);
    return score_(torch::relu(hidden_(pooled))).squeeze(1);
  }

 private:
  std::shared_ptr<Attention> first_, second_;
  nn::Linear hidden_{nullptr}, score_{nullptr};
};

}  // namespace

RankerNetwork::RankerNetwork(int64_t width, int64_t first) : first_(first) {
  mean_ = register_buffer("mean", torch::zeros({width}));
  deviation_ = register_buffer("deviation", torch::ones({width}));
}

void RankerNetwork::standardise_by(const torch::Tensor& rows) {
  if (rows.size(0) < 2) return;
  const torch::NoGradGuard no_grad;
  mean_.copy_(rows.mean(0));
  const auto deviation = rows.std(0);
  deviation_.copy_(torch::where(deviation > 1e-6, deviation, torch::ones_like(deviation)));
  mean_.narrow(0, 0, first_).zero_();
  deviation_.narrow(0, 0, first_).fill_(1);
}

torch::Tensor RankerNetwork::standardised(const torch::Tensor& inputs) const {
  return (inputs - mean_) / deviation_;
}

std::shared_ptr<RankerNetwork> make_network(const std::string& name) {
  if (name == "linear") return std::make_shared<LinearNetwork>();
  if (name == "rnn") return std::make_shared<RnnNetwork>();
  if (name == "gat") return std::make_shared<GatNetwork>();
  bad_input("ranker \"{}\" is not a network; allowed: linear, rnn, gat", name);
}

}  // namespace entrain::simulator
