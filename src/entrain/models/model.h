// What a model of the zoo offers: a loss, and data to compute it on.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "entrain/layers/layer.h"

namespace entrain::models {

// Examples. Dimension 0 of all tensors counts them, so a batch can be cut into those of ranks.
struct Batch {
  torch::Tensor input;
  torch::Tensor target;                  // undefined when the model has no use for one (see Model::inputs)
  std::vector<torch::Tensor> more = {};  // what a model of the user's own takes beyond these two

  int64_t size() const { return input.size(0); }
  Batch narrow(int64_t begin, int64_t count) const {
    return each([&](const torch::Tensor& tensor) { return tensor.narrow(0, begin, count); });
  }
  Batch to(const torch::Device& device) const {
    return each([&](const torch::Tensor& tensor) { return tensor.to(device); });
  }
  // The examples of all, in order. Requires: one batch or more.
  static Batch joined(const std::vector<Batch>& parts) {
    if (parts.size() == 1) return parts.front();
    std::vector<torch::Tensor> inputs, targets;
    std::vector<std::vector<torch::Tensor>> more(parts.front().more.size());
    for (const Batch& part : parts) {
      inputs.push_back(part.input);
      if (part.target.defined()) targets.push_back(part.target);
      for (size_t i = 0; i < more.size(); ++i) more[i].push_back(part.more[i]);
    }
    Batch result{torch::cat(inputs), targets.empty() ? torch::Tensor() : torch::cat(targets)};
    for (const auto& tensors : more) result.more.push_back(torch::cat(tensors));
    return result;
  }

 private:
  template <typename Change>
  Batch each(const Change& change) const {
    Batch result{change(input), target.defined() ? change(target) : target};
    for (const torch::Tensor& tensor : more) result.more.push_back(change(tensor));
    return result;
  }
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

  // Names of a batch's tensors, in order: input, target if there is one, more. Files of examples use them.
  virtual std::vector<std::string> inputs() const { return {"x", "y"}; }

  // What training changes, by the names of Python's state_dict: parameters, then buffers. The model's own
  // tensors; a tied one may come under several names.
  virtual std::vector<std::pair<std::string, torch::Tensor>> state() const {
    std::vector<std::pair<std::string, torch::Tensor>> result;
    for (const auto& item : named_parameters()) result.emplace_back(item.key(), item.value());
    for (const auto& item : named_buffers()) {
      if (item.value().defined()) result.emplace_back(item.key(), item.value());
    }
    return result;
  }

  // Made-up examples on the CPU whose targets follow from their inputs: there is something to learn. The same
  // generator state gives the same examples.
  virtual Batch synthetic(int64_t batch_size, torch::Generator& generator) const = 0;
};

}  // namespace entrain::models
