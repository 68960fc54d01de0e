// The gradient of one process on the whole batch, and a rank's check against it.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "entrain/base/error.h"
#include "entrain/models/registry.h"
#include "entrain/parallel/distributed.h"

namespace entrain::testing {

using Gradients = std::map<std::string, torch::Tensor>;

inline models::Batch rank_batch(const models::Model& model, int rank) {
  constexpr int64_t kBatch = 2;  // per rank
  auto generator = at::detail::createCPUGenerator(100 + static_cast<uint64_t>(rank));
  return model.synthetic(kBatch, generator);
}

inline models::Batch whole_batch(const models::Model& model, int workers) {
  std::vector<torch::Tensor> inputs, targets;
  for (int rank = 0; rank < workers; ++rank) {
    const models::Batch batch = rank_batch(model, rank);
    inputs.push_back(batch.input);
    targets.push_back(batch.target);
  }
  return {torch::cat(inputs), torch::cat(targets)};
}

inline torch::Tensor densified(const torch::Tensor& gradient) {
  return gradient.is_sparse() ? gradient.to_dense() : gradient.clone();
}

inline Gradients gradients_alone(const std::string& model_name, int workers) {
  const auto model = models::make_model(model_name, 7);
  model->loss(whole_batch(*model, workers)).backward();
  Gradients gradients;
  for (const auto& parameter : model->named_parameters())
    gradients[parameter.key()] = densified(parameter->grad());
  return gradients;
}

// An optimizer that keeps each gradient it is asked to apply.
class Recorder : public torch::optim::Optimizer {
 public:
  Recorder(torch::nn::Module& module, Gradients& into)
      : Optimizer(module.parameters(), std::make_unique<torch::optim::SGDOptions>(0.0)),
        module_(module),
        into_(into) {}
  torch::Tensor step(LossClosure = nullptr) override {
    const torch::NoGradGuard no_grad;
    for (const auto& group : param_groups()) {
      for (const auto& updated : group.params()) {
        for (const auto& parameter : module_.named_parameters()) {
          if (parameter->is_same(updated)) into_[parameter.key()] = densified(updated.grad());
        }
      }
    }
    return {};
  }

 private:
  torch::nn::Module& module_;
  Gradients& into_;
};

// Trains two steps on this rank and compares the second one's gradients (the first step synchronizes
// after backward, the others during it). Throws Error naming the variable and the error when one is off
// by more than 1e-5 of its norm. `change`: the strategy to switch to before the second step.
inline void check_equivalence(job::Context& context, const std::string& model_name, const Gradients& expected,
                              const parallel::Options& options,
                              const std::function<strategy::Strategy(strategy::Strategy)>& change = nullptr) {
  const auto model = models::make_model(model_name, 7);
  Gradients gradients;
  Recorder recorder(*model, gradients);
  parallel::Distributed distributed(context, *model, recorder, options);
  const auto batch = rank_batch(*model, context.rank());
  distributed.step(model->loss(batch));
  distributed.finish();
  if (change) distributed.switch_strategy(change(distributed.strategy()));
  gradients.clear();
  distributed.step(model->loss(batch));
  distributed.finish();
  if (gradients.size() != expected.size())
    fail("{} gradients instead of {}", gradients.size(), expected.size());
  // Some gradients are zero but for rounding (a key's bias shifts all scores of a softmax alike): those are
  // held to 1e-5 of the ten-thousandth part of the whole gradient instead of their own noise.
  double whole = 0;
  for (const auto& [name, gradient] : expected) whole += gradient.square().sum().item<double>();
  const double smallest = 1e-4 * std::sqrt(whole);
  for (const auto& [name, gradient] : gradients) {
    const torch::Tensor& wanted = expected.at(name);
    const double error =
        (gradient - wanted).norm().item<double>() / std::max(wanted.norm().item<double>(), smallest);
    if (!(error < 1e-5)) {
      fail("rank {}: gradient of {} is off by {:.2e} under {} ({})", context.rank(), name, error,
           distributed.strategy().id, model_name);
    }
  }
}

}  // namespace entrain::testing
