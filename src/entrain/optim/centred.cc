#include "entrain/optim/centred.h"

namespace entrain::optim {

Centred::Centred(int64_t period, RuleWorker worker)
    : period_(period),
      worker_(std::move(worker)),
      crew_(worker_.transport, worker_.ranks, 0, worker_.timeout_s) {}

void Centred::step(double /*loss*/) {
  const torch::NoGradGuard no_grad;
  ensure_centre();
  own_step();
  if ((step_ + 1) % period_ == 0) {
    const Stopwatch stopwatch(journal_.communication_s);
    exchange();
    ++journal_.exchanges;
  }
  ++step_;
}

torch::Tensor Centred::test_parameters() {
  ensure_centre();
  return centre_.clone();
}

State Centred::state() const {
  State state;
  put(state, "step", step_);
  put(state, "centre", centre_);
  return state;
}

void Centred::restore(const State& state) {
  step_ = counter_in(state, "step");
  centre_ = has(state, "centre") ? tensor_in(state, "centre", worker_.x) : torch::Tensor();
}

void Centred::ensure_centre() {
  if (centre_.defined()) return;
  const Stopwatch stopwatch(journal_.communication_s);
  centre_ = mean_over(crew_, worker_.x);
  started();
}

}  // namespace entrain::optim
