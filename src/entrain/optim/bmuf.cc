// Blockwise model-update filtering (Chen, Huo: Scalable training of deep learning machines by incremental
// block training with intra-block parallel optimization and blockwise model-update filtering, 2016).
//
//   each step       x_i <- base(x_i)
//   every period    G = sum_i x_i / l - x_g;   D <- b G + m D;   x_g += D;   x_i <- x_g
//
// The classical form: workers restart from x_g itself, not from the Nesterov point x_g + m D. x_g starts at
// the mean of the workers, D at 0. b = block_rate, m = block_momentum or 1 - 1/l.
#include "entrain/optim/rules.h"

namespace entrain::optim {
namespace {

class Bmuf : public DistributedOptimizer {
 public:
  Bmuf(const strategy::Optimizer& settings, Worker worker)
      : settings_(settings),
        worker_(std::move(worker)),
        crew_(worker_.transport, worker_.ranks, 0, worker_.timeout_s) {
    momentum_ = settings.block_momentum >= 0 ? settings.block_momentum : 1 - 1.0 / crew_.count();
  }

  void step(double /*loss*/) override {
    const torch::NoGradGuard no_grad;
    ensure_global();
    worker_.base.step();
    if (++step_ % settings_.period != 0) return;
    const Stopwatch stopwatch(journal_.communication_s);
    const torch::Tensor gain = mean_over(crew_, worker_.x).sub_(global_);
    delta_.mul_(momentum_).add_(gain, settings_.block_rate);
    global_.add_(delta_);
    worker_.x.copy_(global_);
    ++journal_.exchanges;
  }

  void finish() override {}

  torch::Tensor test_parameters() override {
    ensure_global();
    return global_.clone();
  }

  State state() const override {
    State state;
    put(state, "step", step_);
    put(state, "centre", global_);
    put(state, "block_momentum", delta_);
    return state;
  }

  void restore(const State& state) override {
    step_ = counter_in(state, "step");
    global_.reset();
    if (!has(state, "centre")) return;
    global_ = tensor_in(state, "centre", worker_.x);
    delta_ = tensor_in(state, "block_momentum", worker_.x);
  }

 private:
  void ensure_global() {
    if (global_.defined()) return;
    const Stopwatch stopwatch(journal_.communication_s);
    global_ = mean_over(crew_, worker_.x);
    delta_ = torch::zeros_like(global_);
  }

  const strategy::Optimizer settings_;
  Worker worker_;
  int64_t step_ = 0;
  torch::Tensor global_, delta_;  // undefined before the first step; the same bits at all workers
  double momentum_ = 0;
  Crew crew_;
};

}  // namespace

Rule make_bmuf(const strategy::Optimizer& settings, Worker worker) {
  return std::make_unique<Bmuf>(settings, std::move(worker));
}

}  // namespace entrain::optim
