// Leader SGD (Teng, Gao, Chus, Choromanska, Goldfarb, Weller: Leader Stochastic Gradient Descent for
// Distributed Training of Deep Learning Models, 2019).
//
//   each step          x <- base(x) - m (x - z) - m_G (x - z_G)       pulls taken at x before the base's step
//   every period       leader = the worker of the lowest mean loss over the loss window (ties: lowest rank)
//                      z = the leader's x, broadcast;  x -= p (x - z)
//
// With groups this is the local exchange: the period is the local one, leader and z are the group's. Every
// global period the same happens among all workers with z_G and p_G. Where both are due, both happen: with
// the same copy of x, the same losses, and the pulls taken at the same x. With one group there is no z_G. m =
// proximal, or p / its period (with groups the local one); m_G = proximal, or p_G / the global period.
//
// Overlapped, the exchange begun after step k runs beside step k+1 and is applied after it, never earlier or
// later, so that a run does not depend on the network's speed:
//
//   step   k          k+1              k+2
//   x      x_k ─copy─▶ base, m(x - z)   z = the leader's x_k; x -= p (x - z); base, m(x - z)
//   wires            losses, leader's x_k
//
// All take the copy, since nobody knows yet who leads: so nobody waits for the losses either. The leader is
// not pulled towards its own older self at the exchange. Bytes of an exchange among l workers: (l - 1) B + 8
// l (l - 1); averaging takes 2 (l - 1) B.
#include <algorithm>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/optim/leader.h"
#include "entrain/optim/rules.h"
#include "entrain/strategy/rule_settings.h"

namespace entrain::optim {
namespace {

std::vector<int> group_of(int rank, const RuleWorker& worker) {
  if (worker.groups.size() < 2) return worker.ranks;
  for (const auto& group : worker.groups) {
    if (std::find(group.begin(), group.end(), rank) != group.end()) return group;
  }
  fail("rank {} is in no group", rank);
}

class Lsgd : public DistributedOptimizer {
 public:
  Lsgd(const strategy::Lsgd& rule, RuleWorker worker)
      : rule_(rule),
        worker_(std::move(worker)),
        grouped_(worker_.groups.size() > 1),
        window_(strategy::loss_window_of(rule)),
        all_(worker_.transport, worker_.ranks, 0, worker_.timeout_s) {
    if (grouped_) {
      const int rank = worker_.transport.rank();
      own_.emplace(worker_.transport, group_of(rank, worker_), 1, worker_.timeout_s);
    }
  }

  void step(double loss) override {
    const torch::NoGradGuard no_grad;
    window_.add(loss);
    pull_both(worker_.x, local_.z, strategy::proximal_of(rule_, grouped_), global_.z,
              strategy::global_proximal_of(rule_));
    worker_.own_update();
    ++step_;

    const Stopwatch stopwatch(journal_.communication_s);
    if (under_way_) apply();
    begin();
    if (under_way_ && !rule_.overlap) apply();
  }

  void finish() override {
    const Stopwatch stopwatch(journal_.communication_s);
    await();
  }

  torch::Tensor test_parameters() override {
    finish();
    return mean_over(group(), worker_.x);
  }

  torch::Tensor leader_parameters() const override { return local_.z; }

  State state() const override {
    State state;
    put(state, "step", step_);
    put(state, "z_local", local_.z);
    put(state, "z_global", global_.z);
    put(state, "leader_local", local_.leader);
    put(state, "leader_global", global_.leader);
    put(state, "losses", torch::tensor(window_.values(), torch::kFloat64));
    if (under_way_) {  // has arrived, and is to be applied after the next step
      if (under_way_->local) put(state, "arrived_local", local_.message);
      if (under_way_->global) put(state, "arrived_global", global_.message);
    }
    return state;
  }

  void restore(const State& state) override {
    step_ = counter_in(state, "step");
    local_.leader = counter_in(state, "leader_local");
    global_.leader = counter_in(state, "leader_global");
    local_.z = optional_in(state, "z_local");
    global_.z = optional_in(state, "z_global");
    const torch::Tensor losses = tensor_in(state, "losses");
    window_.set({losses.data_ptr<double>(), losses.data_ptr<double>() + losses.numel()});
    const bool former = has(state, "arrived");  // as written before both could be under way
    const bool was_global = former && counter_in(state, "arrived_global") != 0;
    local_.message = optional_in(state, !former ? "arrived_local" : was_global ? "" : "arrived");
    global_.message = optional_in(state, !former ? "arrived_global" : was_global ? "arrived" : "");
    under_way_ = Exchange{step_, local_.message.defined(), global_.message.defined()};
    if (!under_way_->local && !under_way_->global) under_way_.reset();
  }

 private:
  struct Exchange {
    int64_t step;  // after which it began
    bool local;    // in the group; among all where there is one group
    bool global;   // among all groups
  };
  struct Leading {
    torch::Tensor z;  // the leader's x; undefined before the first exchange
    int64_t leader = -1;
    torch::Tensor message;  // x when the exchange began, then the leader's

    void copy(const torch::Tensor& x) {
      if (message.defined()) {
        message.copy_(x);
      } else {
        message = x.detach().clone();
      }
    }
  };

  Crew& group() { return grouped_ ? *own_ : all_; }

  // Copies x and sets out for the leaders', when an exchange is due.
  void begin() {
    if (all_.count() == 1) return;  // nobody to follow: plain training by the base
    const int64_t period = grouped_ ? strategy::local_period_of(rule_) : rule_.period;
    const Exchange due{step_, step_ % period == 0, grouped_ && step_ % rule_.period == 0};
    if (!due.local && !due.global) return;
    under_way_ = due;
    if (due.local) local_.copy(worker_.x);
    if (due.global) global_.copy(worker_.x);
    const auto exchange = [this, loss = window_.mean()] { choose_and_broadcast(loss); };
    if (rule_.overlap) {
      arrival_ = group().beside(exchange);
    } else {
      exchange();
      record();
    }
  }

  // On the thread of group() when overlapped: touches only messages and leaders. With groups it uses all_
  // there too, which therefore outlives own_ and never has a thread of its own.
  void choose_and_broadcast(double loss) {
    const bool global = under_way_->global;
    std::vector<double> losses = (global ? all_ : group()).all_gather(loss);
    if (global) {
      const int leader = choose(losses);
      global_.leader = all_.ranks()[leader];
      all_.broadcast(global_.message, leader);
      losses = of_own_group(losses);
    }
    const int leader = choose(losses);
    local_.leader = group().ranks()[leader];  // where only the global one is due: for the record
    if (under_way_->local) group().broadcast(local_.message, leader);
    if (!grouped_) global_.leader = local_.leader;
  }

  std::vector<double> of_own_group(const std::vector<double>& losses) const {
    std::vector<double> own;
    for (const int rank : own_->ranks()) {
      const auto at = std::find(all_.ranks().begin(), all_.ranks().end(), rank) - all_.ranks().begin();
      own.push_back(losses[static_cast<size_t>(at)]);
    }
    return own;
  }

  int choose(const std::vector<double>& losses) const {
    if (rule_.choice == "best") return best_leader(losses);
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
        {under_way_->step, static_cast<int>(local_.leader), of_all ? static_cast<int>(global_.leader) : -1});
    journal_.exchanges += int{under_way_->local} + int{under_way_->global};
  }

  void apply() {
    await();
    const auto adopt = [this](Leading& leading, bool due) {
      if (!due) return torch::Tensor();
      std::swap(leading.z, leading.message);  // the old z becomes the next message's memory
      return leading.leader == worker_.transport.rank() ? torch::Tensor() : leading.z;
    };
    const torch::Tensor z = adopt(local_, under_way_->local), z_global = adopt(global_, under_way_->global);
    pull_both(worker_.x, z, rule_.pull, z_global, rule_.global_pull);
    under_way_.reset();
  }

  torch::Tensor optional_in(const State& state, const char* name) const {
    return has(state, name) ? tensor_in(state, name, worker_.x) : torch::Tensor();
  }

  const strategy::Lsgd rule_;
  RuleWorker worker_;
  const bool grouped_;
  LossWindow window_;
  int64_t step_ = 0;
  Leading local_, global_;  // of the group (or of all, where there is one group); of all groups
  std::optional<Exchange> under_way_;
  std::future<void> arrival_;
  // Last, so that their threads end before what they write to; own_'s first, since it uses all_.
  Crew all_;
  std::optional<Crew> own_;  // of this worker's group; none: one group
};

}  // namespace

std::unique_ptr<DistributedOptimizer> make_lsgd(const strategy::Lsgd& rule, RuleWorker worker) {
  return std::make_unique<Lsgd>(rule, std::move(worker));
}

}  // namespace entrain::optim
