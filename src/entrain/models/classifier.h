// Models that tell which of several classes an example is of.
#pragma once

#include "entrain/models/model.h"

namespace entrain::models {

class Classifier : public Model {
 public:
  // (N, classes): the higher, the likelier.
  virtual torch::Tensor logits(const torch::Tensor& input) = 0;

  torch::Tensor loss(const Batch& batch) final {
    return torch::nn::functional::cross_entropy(logits(batch.input), batch.target);
  }

  // How many of the batch it gets wrong.
  int64_t mistakes(const Batch& batch) {
    return logits(batch.input).argmax(1).ne(batch.target).sum().item<int64_t>();
  }
};

}  // namespace entrain::models
