// Parle (Chaudhari, Baldassi, Zecchina, Soatto, Talwalkar, Oberman: Parle: parallelizing stochastic gradient
// descent, 2017): each worker smooths f around its replica x by an inner walk y, and replicas are pulled to
// their mean, harder and harder.
//
//   each step       y <- base(y) - (h / gamma) (y - x)           y is what the network computes with
//                   z <- 0.75 z + 0.25 y                         running mean of the walk
//   every period    x <- x - (x - z) - k (x - xbar),             k = min(1, h / rho)
//                   xbar = sum_i x_i / l;   y, z <- x
//                   gamma <- max(1, gamma s),  rho <- max(0.1, rho s),   s = 1 - 1 / (2 batches)
//
// h is the base's learning rate now, batches the steps of an epoch, and gamma and rho start at `scope`. x and
// xbar start at the mean of the workers. The paper (its equation 8) has the same three terms with one rate h
// for both pulls of x and Nesterov momentum 0.9 on x: h = 0.1 then moves x by about the whole way to z. Here
// x has no momentum, and goes to z at once. xbar is that of the last exchange, as in the paper.
#include <algorithm>
#include <cmath>

#include "entrain/optim/rules.h"

namespace entrain::optim {
namespace {

constexpr double kWalkMemory = 0.75;
constexpr double kLeastGamma = 1;
constexpr double kLeastRho = 0.1;

class Parle : public DistributedOptimizer {
 public:
  Parle(const strategy::Optimizer& settings, Worker worker)
      : settings_(settings),
        worker_(std::move(worker)),
        crew_(worker_.transport, worker_.ranks, 0, worker_.timeout_s) {}

  void step(double /*loss*/) override {
    const torch::NoGradGuard no_grad;
    ensure_replica();
    const double rate = worker_.base.param_groups().front().options().get_lr();
    torch::Tensor& y = worker_.x;
    const double gamma = annealed(kLeastGamma), rho = annealed(kLeastRho);
    y.lerp_(replica_, std::min(1.0, rate / gamma));
    worker_.base.step();
    walk_.lerp_(y, 1 - kWalkMemory);
    if (++step_ % settings_.period != 0) return;

    const Stopwatch stopwatch(journal_.communication_s);
    const torch::Tensor from_mean = replica_ - mean_;
    replica_.copy_(walk_).sub_(from_mean, std::min(1.0, rate / rho));
    mean_ = mean_over(crew_, replica_);
    y.copy_(replica_);
    walk_.copy_(replica_);
    ++journal_.exchanges;
  }

  void finish() override {}

  torch::Tensor test_parameters() override {
    ensure_replica();
    return mean_.clone();
  }

  State state() const override {
    State state;
    put(state, "step", step_);
    put(state, "replica", replica_);
    put(state, "centre", mean_);
    put(state, "walk", walk_);
    return state;
  }

  void restore(const State& state) override {
    step_ = counter_in(state, "step");
    replica_.reset();
    if (!has(state, "replica")) return;
    replica_ = tensor_in(state, "replica", worker_.x);
    mean_ = tensor_in(state, "centre", worker_.x);
    walk_ = tensor_in(state, "walk", worker_.x);
  }

 private:
  // gamma or rho: scope s^(exchanges so far).
  double annealed(double least) const {
    const double s = 1 - 1 / (2.0 * static_cast<double>(worker_.epoch_steps));
    const int64_t exchanges = step_ / settings_.period;
    return std::max(least, settings_.scope * std::pow(s, static_cast<double>(exchanges)));
  }

  void ensure_replica() {
    if (replica_.defined()) return;
    const Stopwatch stopwatch(journal_.communication_s);
    mean_ = mean_over(crew_, worker_.x);
    replica_ = mean_.clone();
    walk_ = mean_.clone();
  }

  const strategy::Optimizer settings_;
  Worker worker_;
  int64_t step_ = 0;                     // gamma and rho follow from it
  torch::Tensor replica_, mean_, walk_;  // x, xbar, z; undefined before the first step
  Crew crew_;
};

}  // namespace

Rule make_parle(const strategy::Optimizer& settings, Worker worker) {
  return std::make_unique<Parle>(settings, std::move(worker));
}

}  // namespace entrain::optim
