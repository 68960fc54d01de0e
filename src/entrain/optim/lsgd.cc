// Leader SGD (Teng, Gao, Chus, Choromanska, Goldfarb, Weller: Leader Stochastic Gradient Descent for
// Distributed Training of Deep Learning Models, 2019).
//
//   each step          x <- base(x) - m (x - z) - m_G (x - z_G)       pulls taken at x before the base's step
//   every period       leader = the worker of the lowest mean loss over the loss window (ties: lowest rank)
//                      z = the leader's x, broadcast;  x -= p (x - z)
//
// With groups the period is the local one, leader and z are the group's, and every global period the same
// happens among all workers with z_G and p_G; where both are due, only the global one. With one group there
// is no z_G. m = proximal, or p / period (m_G: p_G / period).
//
// Overlapped, the exchange begun after step k runs beside step k+1 and is applied after it, never earlier or
// later, so that a run does not depend on the network's speed:
//
//   step   k          k+1              k+2
//   x      x_k ─copy─▶ base, m(x - z)   z = the leader's x_k; x -= p (x - z); base, m(x - z)
//   wires            losses, leader's x_k
//
// All take the copy, for nobody knows yet who leads: thus nobody waits for the losses either. The leader is
// not pulled towards its own older self at the exchange. Bytes of an exchange among l workers: (l - 1) B + 8
// l (l - 1); averaging takes 2 (l - 1) B.
#include <algorithm>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/optim/leader.h"
#include "entrain/optim/rules.h"

namespace entrain::optim {
namespace {

std::vector<int> group_of(int rank, const Worker& worker) {
  if (worker.groups.size() < 2) return worker.ranks;
  for (const auto& group : worker.groups) {
    if (std::find(group.begin(), group.end(), rank) != group.end()) return group;
  }
  fail("rank {} is in no group", rank);
}

class Lsgd : public DistributedOptimizer {
 public:
  Lsgd(const strategy::Optimizer& settings, Worker worker)
      : settings_(settings),
        worker_(std::move(worker)),
        grouped_(worker_.groups.size() > 1),
        window_(settings.loss_window_or_default()),
        all_(worker_.transport, worker_.ranks, 0, worker_.timeout_s) {
    if (grouped_) {
      const int rank = worker_.transport.rank();
      own_.emplace(worker_.transport, group_of(rank, worker_), 1, worker_.timeout_s);
    }
  }

  void step(double loss) override {
    const torch::NoGradGuard no_grad;
    window_.add(loss);
    pull_each_step();
    worker_.base.step();
    ++step_;

    const Stopwatch stopwatch(journal_.communication_s);
    if (under_way_) apply();
    begin();
    if (under_way_ && !settings_.overlap) apply();
  }

  void finish() override {
    const Stopwatch stopwatch(journal_.communication_s);
    await();
  }

  torch::Tensor test_parameters() override {
    finish();
    return mean_over(group(), worker_.x);
  }

  torch::Tensor leader_parameters() const override { return z_local_; }

  State state() const override {
    State state;
    put(state, "step", step_);
    put(state, "z_local", z_local_);
    put(state, "z_global", z_global_);
    put(state, "leader_local", leader_local_);
    put(state, "leader_global", leader_global_);
    put(state, "losses", torch::tensor(window_.values(), torch::kFloat64));
    if (under_way_) {  // has arrived, and is to be applied after the next step
      put(state, "arrived", message_);
      put(state, "arrived_global", int64_t{under_way_->global});
    }
    return state;
  }

  void restore(const State& state) override {
    step_ = counter_in(state, "step");
    leader_local_ = counter_in(state, "leader_local");
    leader_global_ = counter_in(state, "leader_global");
    z_local_ = optional_in(state, "z_local");
    z_global_ = optional_in(state, "z_global");
    const torch::Tensor losses = tensor_in(state, "losses");
    window_.set({losses.data_ptr<double>(), losses.data_ptr<double>() + losses.numel()});
    under_way_.reset();
    if (has(state, "arrived")) {
      message_ = tensor_in(state, "arrived", worker_.x);
      under_way_ = Exchange{step_, counter_in(state, "arrived_global") != 0};
    }
  }

 private:
  struct Exchange {
    int64_t step;  // after which it began
    bool global;   // among all groups
  };

  Crew& group() { return grouped_ ? *own_ : all_; }

  double global_proximal() const {
    if (settings_.proximal >= 0) return settings_.proximal;
    return settings_.global_pull / static_cast<double>(settings_.period);
  }

  void pull_each_step() {
    torch::Tensor& x = worker_.x;
    torch::Tensor to_global;  // both pulls are taken at the same x
    if (z_global_.defined()) to_global = (z_global_ - x).mul_(global_proximal());
    if (z_local_.defined()) x.lerp_(z_local_, settings_.proximal_or_default());
    if (to_global.defined()) x.add_(to_global);
  }

  // Copies x and sets out for the leader's, when an exchange is due.
  void begin() {
    if (all_.count() == 1) return;  // nobody to follow: plain training by the base
    const bool global = grouped_ && step_ % settings_.period == 0;
    const int64_t period = grouped_ ? settings_.local_period_or_default() : settings_.period;
    if (!global && step_ % period != 0) return;
    under_way_ = Exchange{step_, global};
    if (message_.defined()) {
      message_.copy_(worker_.x);
    } else {
      message_ = worker_.x.detach().clone();
    }
    const auto exchange = [this, loss = window_.mean()] { choose_and_broadcast(loss); };
    if (settings_.overlap) {
      arrival_ = (global ? all_ : group()).beside(exchange);
    } else {
      exchange();
      record();
    }
  }

  // On the crew's thread when overlapped: touches only message_ and the leaders.
  void choose_and_broadcast(double loss) {
    Crew& crew = under_way_->global ? all_ : group();
    const std::vector<double> losses = crew.all_gather(loss);
    const int leader = choose(losses);
    crew.broadcast(message_, leader);
    leader_local_ = crew.ranks()[leader];
    if (!grouped_) leader_global_ = leader_local_;
    if (!under_way_->global) return;
    leader_global_ = leader_local_;
    // The group's best, for the record: its losses are among those of all.
    std::vector<double> own;
    for (const int rank : own_->ranks()) {
      const auto at = std::find(all_.ranks().begin(), all_.ranks().end(), rank) - all_.ranks().begin();
      own.push_back(losses[static_cast<size_t>(at)]);
    }
    leader_local_ = own_->ranks()[static_cast<size_t>(choose(own))];
  }

  int choose(const std::vector<double>& losses) const {
    if (settings_.choice == "best") return best_leader(losses);
    return stochastic_leader(losses, uniform_at(worker_.seed, under_way_->step));
  }

  void await() {
    if (!arrival_.valid()) return;
    arrival_.get();
    record();
  }

  void record() {
    const bool of_all = under_way_->global || !grouped_;
    journal_.leaders.push_back(
        {under_way_->step, static_cast<int>(leader_local_), of_all ? static_cast<int>(leader_global_) : -1});
    ++journal_.exchanges;
  }

  void apply() {
    await();
    const bool global = under_way_->global;
    const int64_t leader = global ? leader_global_ : leader_local_;
    std::swap(global ? z_global_ : z_local_, message_);  // the old z becomes the next message's memory
    if (leader != worker_.transport.rank()) {
      worker_.x.lerp_(global ? z_global_ : z_local_, global ? settings_.global_pull : settings_.pull);
    }
    under_way_.reset();
  }

  torch::Tensor optional_in(const State& state, const char* name) const {
    return has(state, name) ? tensor_in(state, name, worker_.x) : torch::Tensor();
  }

  const strategy::Optimizer settings_;
  Worker worker_;
  const bool grouped_;
  LossWindow window_;
  int64_t step_ = 0;
  torch::Tensor z_local_, z_global_;  // undefined before the first exchange
  int64_t leader_local_ = -1, leader_global_ = -1;
  std::optional<Exchange> under_way_;
  torch::Tensor message_;  // x when the exchange began, then the leader's
  std::future<void> arrival_;
  // Last, so that their threads end before what they write to.
  Crew all_;
  std::optional<Crew> own_;  // of this worker's group; none: one group
};

}  // namespace

Rule make_lsgd(const strategy::Optimizer& settings, Worker worker) {
  return std::make_unique<Lsgd>(settings, std::move(worker));
}

}  // namespace entrain::optim
