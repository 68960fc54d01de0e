// What a model of the zoo offers: a loss, and data to compute it on.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "entrain/layers/layer.h"

namespace entrain::models {

// Examples. Dimension 0 of both tensors counts them, so a batch can be cut into those of ranks.
struct Batch {
  torch::Tensor input;
  torch::Tensor target;

  int64_t size() const { return input.size(0); }
  Batch narrow(int64_t begin, int64_t count) const {
    return {input.narrow(0, begin, count), target.narrow(0, begin, count)};
  }
  Batch to(const torch::Device& device) const { return {input.to(device), target.to(device)}; }
};

// The loss is the mean over the batch of a loss per example, so that the mean over ranks with equally many
// examples is the loss of the whole batch. (Batch normalization breaks this: its statistics are a rank's
// own.)
class Model : public torch::nn::Module {
 public:
  virtual torch::Tensor loss(const Batch& batch) = 0;

  // The same computation cut into layers, which share this model's parameters; without layers: it is not a
  // sequence, and no pipeline can run it. The model outlives the layers.
  virtual layers::Sequence sequence() { return {}; }

  // Targets are whole numbers below this (classes, or a vocabulary's tokens); 0: they are something else.
  virtual int64_t classes() const { return 0; }

  // Made-up examples on the CPU whose targets follow from their inputs: there is something to learn. The same
  // generator state gives the same examples.
  virtual Batch synthetic(int64_t batch_size, torch::Generator& generator) const = 0;
};

}  // namespace entrain::models
