// The published networks: strategies of one (G, D) in, scores out.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

#include "entrain/simulator/learned/part_features.h"

namespace entrain::simulator {

// B strategies of one domain. Parts are not padded: those of all strategies lie one after the other.
struct StrategyBatch {
  torch::Tensor inputs;  // [parts, kPartWidth]; linear: [B, 12]
  torch::Tensor slots;   // [parts], int64: strategy within the batch x variables + variable
  int64_t size = 0;      // B
  int64_t variables = 0;
  torch::Tensor from, to;  // [edges], int64: G's edges both ways and each variable to itself
};

class RankerNetwork : public torch::nn::Module {
 public:
  // [B] scores, lower is better.
  virtual torch::Tensor forward(const StrategyBatch& batch) = 0;

  // Mean and deviation of the inputs, from all training rows; saved with the parameters.
  void standardise_by(const torch::Tensor& rows);

 protected:
  // One-hot columns [0, first) are left as they are.
  RankerNetwork(int64_t width, int64_t first);
  torch::Tensor standardised(const torch::Tensor& inputs) const;

 private:
  int64_t first_;
  torch::Tensor mean_, deviation_;
};

// "linear", "rnn", "gat". Its parameters come from torch's default generator.
std::shared_ptr<RankerNetwork> make_network(const std::string& name);

}  // namespace entrain::simulator
