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

}  // namespace entrain::optim
