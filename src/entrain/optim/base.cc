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

double clip_gradients(const std::vector<torch::Tensor>& parameters, double most) {
  if (most == 0) return 0;
  for (const auto& parameter : parameters) {
    // Rows that came twice count as their sum.
    if (parameter.grad().defined() && parameter.grad().is_sparse()) {
      parameter.mutable_grad() = parameter.grad().coalesce();
    }
  }
  return torch::nn::utils::clip_grad_norm_(parameters, most);
}

}  // namespace entrain::optim
