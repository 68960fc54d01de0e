// Models that tell which of several classes an example is of.
#pragma once

#include "entrain/models/sequential.h"

namespace entrain::models {

class Classifier : public SequentialModel {
 public:
  // From the input to (N, classes): the higher, the likelier.
  virtual std::vector<layers::Layer> parts() = 0;

  layers::Sequence sequence() final {
    return {parts(), [](const torch::Tensor& logits, const torch::Tensor& target) {
              return torch::nn::functional::cross_entropy(logits, target);
            }};
  }

  // How many of the batch it gets wrong.
  int64_t mistakes(const Batch& batch) {
    const torch::Tensor logits = layers::forward(sequence(), batch.input);
    return logits.argmax(1).ne(batch.target).sum().item<int64_t>();
  }
};

}  // namespace entrain::models
