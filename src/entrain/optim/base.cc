#include "entrain/optim/base.h"

namespace entrain::optim {
namespace {

constexpr double kMomentum = 0.9;

}  // namespace

std::unique_ptr<torch::optim::Optimizer> make_base(const strategy::Optimizer& settings,
                                                   std::vector<torch::Tensor> parameters, int index,
                                                   int workers) {
  const double rate = settings.rate_of(index, workers);
  const bool nesterov = settings.base == "nesterov" || settings.rule == "eamsgd";
  if (settings.base == "adam" && !nesterov) {
    return std::make_unique<torch::optim::Adam>(
        std::move(parameters), torch::optim::AdamOptions(rate).weight_decay(settings.weight_decay));
  }
  return std::make_unique<torch::optim::SGD>(
      std::move(parameters), torch::optim::SGDOptions(rate)
                                 .weight_decay(settings.weight_decay)
                                 .momentum(nesterov || settings.base == "momentum" ? kMomentum : 0)
                                 .nesterov(nesterov));
}

void set_rate(torch::optim::Optimizer& base, double rate) {
  for (auto& group : base.param_groups()) group.options().set_lr(rate);
}

// Not torch::nn::utils::clip_grad_norm_: that scales a copy of a sparse gradient, and leaves the gradient.
double clip_gradients(const std::vector<torch::Tensor>& parameters, double most) {
  if (most == 0) return 0;
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> values, norms;
  for (const auto& parameter : parameters) {
    torch::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) continue;
    if (gradient.is_sparse()) gradient = gradient.coalesce();  // rows that came twice count as their sum
    values.push_back(gradient.is_sparse() ? gradient._values() : gradient);
    norms.push_back(values.back().norm());
  }
  if (values.empty()) return 0;
  const double norm = torch::stack(norms).norm().item<double>();
  if (norm > most) {
    for (auto& value : values) value.mul_(most / norm);
  }
  return norm;
}

}  // namespace entrain::optim
