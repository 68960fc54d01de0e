// Local SGD (Stich: Local SGD converges fast and communicates little, 2018).
//
//   each step       x_i <- base(x_i)
//   every period    x_i <- avg = sum_i x_i / l
//
// Overlapped, the average of step k is taken beside step k+1 and applied after it as a correction, which
// keeps what the worker did meanwhile:  x_{k+1} += avg_k - x_k.
#include <utility>

#include "entrain/optim/rules.h"

namespace entrain::optim {
namespace {

class LocalSgd : public DistributedOptimizer {
 public:
  LocalSgd(const strategy::LocalSgd& rule, RuleWorker worker)
      : rule_(rule),
        worker_(std::move(worker)),
        crew_(worker_.transport, worker_.ranks, 0, worker_.timeout_s) {}

  void step(double /*loss*/) override {
    const torch::NoGradGuard no_grad;
    worker_.own_update();
    ++step_;
    const Stopwatch stopwatch(journal_.communication_s);
    if (before_.defined()) {
      await();
      worker_.x.add_(average_.sub_(std::exchange(before_, {})));
    }
    if (step_ % rule_.period != 0) return;
    if (rule_.overlap) {
      before_ = worker_.x.detach().clone();
      arrival_ = crew_.beside([this] { average_ = mean_over(crew_, before_); });
    } else {
      worker_.x.copy_(mean_over(crew_, worker_.x));
      ++journal_.exchanges;
    }
  }

  void finish() override {
    const Stopwatch stopwatch(journal_.communication_s);
    await();
  }

  torch::Tensor test_parameters() override {
    finish();
    return mean_over(crew_, worker_.x);
  }

  State state() const override {
    State state;
    put(state, "step", step_);
    put(state, "before", before_);  // and the average, to be applied after the next step
    if (before_.defined()) put(state, "average", average_);
    return state;
  }

  void restore(const State& state) override {
    step_ = counter_in(state, "step");
    before_.reset();
    if (!has(state, "before")) return;
    before_ = tensor_in(state, "before", worker_.x);
    average_ = tensor_in(state, "average", worker_.x);
  }

 private:
  void await() {
    if (!arrival_.valid()) return;
    arrival_.get();
    ++journal_.exchanges;
  }

  const strategy::LocalSgd rule_;
  RuleWorker worker_;
  int64_t step_ = 0;
  torch::Tensor before_;   // x when the exchange under way began; undefined: none is
  torch::Tensor average_;  // of everyone's before_
  std::future<void> arrival_;
  Crew crew_;  // last, so that its thread ends before what it writes to
};

}  // namespace

std::unique_ptr<DistributedOptimizer> make_local_sgd(const strategy::LocalSgd& rule, RuleWorker worker) {
  return std::make_unique<LocalSgd>(rule, std::move(worker));
}

}  // namespace entrain::optim
