// Synchronous elastic averaging (Zhang, Choromanska, LeCun: Deep learning with Elastic Averaging SGD, 2015).
//
//   each step       x_i <- base(x_i)
//   every period    d_i = a (x_i - c);   x_i -= d_i;   c += sum_i d_i
//
// Everyone holds c, and sum_i d_i = a (sum_i x_i - l c): one all-reduce of x, 2 (l - 1) B bytes in all. c
// starts at the mean of the workers. a = pull; stable while l a < 2.
// EAMSGD is the same rule around a Nesterov base: the name forces that base (make_base), and no more.
#include "entrain/optim/rules.h"

namespace entrain::optim {
namespace {

class Easgd : public DistributedOptimizer {
 public:
  Easgd(const strategy::Optimizer& settings, Worker worker)
      : settings_(settings),
        worker_(std::move(worker)),
        crew_(worker_.transport, worker_.ranks, 0, worker_.timeout_s) {}

  void step(double /*loss*/) override {
    const torch::NoGradGuard no_grad;
    ensure_centre();
    worker_.base.step();
    if (++step_ % settings_.period != 0) return;
    const Stopwatch stopwatch(journal_.communication_s);
    torch::Tensor sum = worker_.x.detach().clone();
    crew_.all_reduce(sum);
    worker_.x.lerp_(centre_, settings_.pull);
    centre_.add_(sum.sub_(centre_, crew_.count()), settings_.pull);
    ++journal_.exchanges;
  }

  void finish() override {}

  torch::Tensor test_parameters() override {
    ensure_centre();
    return centre_.clone();
  }

  State state() const override {
    State state;
    put(state, "step", step_);
    put(state, "centre", centre_);
    return state;
  }

  void restore(const State& state) override {
    step_ = counter_in(state, "step");
    centre_ = has(state, "centre") ? tensor_in(state, "centre", worker_.x) : torch::Tensor();
  }

 private:
  void ensure_centre() {
    if (centre_.defined()) return;
    const Stopwatch stopwatch(journal_.communication_s);
    centre_ = mean_over(crew_, worker_.x);
  }

  const strategy::Optimizer settings_;
  Worker worker_;
  int64_t step_ = 0;
  torch::Tensor centre_;  // undefined before the first step; the same bits at all workers
  Crew crew_;
};

}  // namespace

Rule make_easgd(const strategy::Optimizer& settings, Worker worker) {
  return std::make_unique<Easgd>(settings, std::move(worker));
}

}  // namespace entrain::optim
