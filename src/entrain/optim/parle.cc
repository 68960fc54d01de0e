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

#include "entrain/optim/centred.h"

namespace entrain::optim {
namespace {

constexpr double kWalkMemory = 0.75;
constexpr double kLeastGamma = 1;
constexpr double kLeastRho = 0.1;

class Parle : public Centred {
 public:
  Parle(const strategy::Parle& rule, RuleWorker worker)
      : Centred(rule.period, std::move(worker)), rule_(rule) {}

  State state() const override {
    State state = Centred::state();
    put(state, "replica", replica_);
    put(state, "walk", walk_);
    return state;
  }

  void restore(const State& state) override {
    Centred::restore(state);
    if (!centre_.defined()) return;
    replica_ = tensor_in(state, "replica", worker_.x);
    walk_ = tensor_in(state, "walk", worker_.x);
  }

 private:
  void started() override {
    replica_ = centre_.clone();
    walk_ = centre_.clone();
  }

  void own_step() override {
    torch::Tensor& y = worker_.x;
    y.lerp_(replica_, std::min(1.0, rate() / annealed(kLeastGamma)));
    worker_.own_update();
    walk_.lerp_(y, 1 - kWalkMemory);
  }

  void exchange() override {
    const torch::Tensor from_mean = replica_ - centre_;
    replica_.copy_(walk_).sub_(from_mean, std::min(1.0, rate() / annealed(kLeastRho)));
    centre_ = mean_over(crew_, replica_);
    worker_.x.copy_(replica_);
    walk_.copy_(replica_);
  }

  double rate() const { return worker_.base.param_groups().front().options().get_lr(); }

  // gamma or rho: scope s^(exchanges so far).
  double annealed(double least) const {
    const double s = 1 - 1 / (2.0 * static_cast<double>(worker_.epoch_steps));
    const int64_t exchanges = step_ / rule_.period;
    return std::max(least, rule_.scope * std::pow(s, static_cast<double>(exchanges)));
  }

  const strategy::Parle rule_;
  torch::Tensor replica_, walk_;  // x and z; there when the centre, xbar, is
};

}  // namespace

std::unique_ptr<DistributedOptimizer> make_parle(const strategy::Parle& rule, RuleWorker worker) {
  return std::make_unique<Parle>(rule, std::move(worker));
}

}  // namespace entrain::optim
