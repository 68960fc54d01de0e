// Any training loop, exact: rates that change, optimizers of every kind.
#include <gtest/gtest.h>

#include <cmath>

#include "support/any_loop.h"

namespace entrain::testing {
namespace {

// --- Schedulers ---

Tensors plain(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) handle->step(net.loss(loop.batch(step)));
  return copies(net);
}

Tensors step_lr(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  torch::optim::StepLR scheduler(optimizer, 2, 0.3);
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    handle->step(net.loss(loop.batch(step)));
    scheduler.step();
  }
  return copies(net);
}

Tensors cosine_after_step(Loop& loop) {
  Net net;
  torch::optim::Adam optimizer(net.parameters(), 0.01);
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    handle->step(net.loss(loop.batch(step)));
    set_rate(optimizer, 0.005 * (1 + std::cos(3.14159 * (step + 1) / kSteps)));
  }
  return copies(net);
}

Tensors warm_up_before_forward(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    set_rate(optimizer, 0.05 * (step + 1) / kSteps);
    handle->step(net.loss(loop.batch(step)));
  }
  return copies(net);
}

// As ReduceLROnPlateau does: a tenth, when the loss of all workers has not fallen.
Tensors rate_by_plateau(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters(), 0.3);
  auto handle = loop.distribute(net, &optimizer);
  double best = 1e9, rate = 0.3;
  for (int step = 0; step < 2 * kSteps; ++step) {
    const auto loss = net.loss(loop.batch(step));
    handle->step(loss);
    const double seen = loop.mean(loss).item<double>();
    if (seen > best) set_rate(optimizer, rate *= 0.1);
    best = std::min(best, seen);
  }
  return copies(net) + Tensors{torch::tensor(rate)};
}

Tensors groups_with_rates_of_their_own(Loop& loop) {
  Net net;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(net.first->parameters(), std::make_unique<torch::optim::SGDOptions>(0.1));
  groups.emplace_back(net.last->parameters(), std::make_unique<torch::optim::SGDOptions>(0.01));
  torch::optim::SGD optimizer(groups, torch::optim::SGDOptions(0.5));
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    handle->step(net.loss(loop.batch(step)));
    optimizer.param_groups()[1].options().set_lr(0.01 / (step + 1));
  }
  return copies(net);
}

// --- Optimizers ---

template <typename Optimizer, typename Settings>
std::function<Tensors(Loop&)> with_optimizer(Settings settings) {
  return [settings](Loop& loop) {
    Net net;
    Optimizer optimizer(net.parameters(), settings);
    auto handle = loop.distribute(net, &optimizer);
    for (int step = 0; step < kSteps; ++step) handle->step(net.loss(loop.batch(step)));
    return copies(net);
  };
}

Tensors lbfgs(Loop& loop) {
  Net net;
  torch::optim::LBFGS optimizer(net.parameters(),
                                torch::optim::LBFGSOptions(0.1).max_iter(3).history_size(3));
  auto handle = loop.distribute(net, nullptr);
  for (int step = 0; step < 3; ++step) {
    const auto x = loop.batch(step);
    optimizer.step([&] {
      optimizer.zero_grad();
      const auto loss = net.loss(x);
      handle->backward(loss);
      return loop.mean(loss);
    });
  }
  return copies(net);
}

// Counts its own steps, as Adam's bias correction would: one that is called once per parameter is far off.
class Counting : public torch::optim::Optimizer {
 public:
  explicit Counting(Tensors parameters)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(0.1)) {}
  torch::Tensor step(LossClosure = nullptr) override {
    const torch::NoGradGuard no_grad;
    ++count_;
    for (auto& group : param_groups()) {
      for (auto& p : group.params()) {
        if (p.grad().defined()) p.add_(p.grad(), -group.options().get_lr() / count_);
      }
    }
    return {};
  }

 private:
  int count_ = 0;
};

Tensors own_optimizer(Loop& loop) {
  Net net;
  Counting optimizer(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) handle->step(net.loss(loop.batch(step)));
  return copies(net);
}

// Lookahead: every second step halfway back to where it was.
class Lookahead : public torch::optim::SGD {
 public:
  explicit Lookahead(const Tensors& parameters) : SGD(parameters, torch::optim::SGDOptions(0.1)) {}
  torch::Tensor step(LossClosure closure = nullptr) override {
    const torch::NoGradGuard no_grad;
    if (slow_.empty()) {
      for (const auto& p : param_groups()[0].params()) slow_.push_back(p.detach().clone());
    }
    SGD::step(closure);
    if (++count_ % 2 != 0) return {};
    for (size_t i = 0; i < slow_.size(); ++i) {
      auto& p = param_groups()[0].params()[i];
      slow_[i].add_(p - slow_[i], 0.5);
      p.copy_(slow_[i]);
    }
    return {};
  }

 private:
  Tensors slow_;
  int count_ = 0;
};

Tensors optimizer_derived_from_sgd(Loop& loop) {
  Net net;
  Lookahead optimizer(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) handle->step(net.loss(loop.batch(step)));
  return copies(net);
}

std::vector<Program> programs() {
  using namespace torch::optim;
  return {
      {"Plain", plain},
      {"StepLr", step_lr},
      {"CosineAfterStep", cosine_after_step},
      {"WarmUpBeforeForward", warm_up_before_forward},
      {"RateByPlateau", rate_by_plateau},
      {"GroupsWithRatesOfTheirOwn", groups_with_rates_of_their_own},
      {"Adam", with_optimizer<Adam>(AdamOptions(0.01).amsgrad(true))},
      {"AdamW", with_optimizer<AdamW>(AdamWOptions(0.01).weight_decay(0.1))},
      {"RmsProp", with_optimizer<RMSprop>(RMSpropOptions(0.01).centered(true).momentum(0.5))},
      {"Adagrad", with_optimizer<Adagrad>(AdagradOptions(0.05).lr_decay(0.1))},
      {"Nesterov", with_optimizer<SGD>(SGDOptions(0.05).momentum(0.9).nesterov(true))},
      {"Lbfgs", lbfgs},
      {"OwnOptimizer", own_optimizer},
      {"OptimizerDerivedFromSgd", optimizer_derived_from_sgd},
  };
}

class AnyRateAndOptimizer : public ::testing::TestWithParam<Program> {};

TEST_P(AnyRateAndOptimizer, AreThoseOfOneProcess) { expect_that_of_one_process(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Programs, AnyRateAndOptimizer, ::testing::ValuesIn(programs()),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace entrain::testing
