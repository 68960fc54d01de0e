#include "entrain/optim/coordinator.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "entrain/base/log.h"
#include "entrain/optim/leader.h"
#include "entrain/strategy/rule_settings.h"

namespace entrain::optim {
namespace {

std::vector<int> workers_of(const std::vector<std::vector<int>>& groups) {
  std::vector<int> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

std::vector<Scope> scopes_of(const strategy::LsgdAsync& rule, const std::vector<std::vector<int>>& groups) {
  std::vector<Scope> scopes;
  if (groups.size() > 1) {
    for (const auto& group : groups) scopes.push_back({group, strategy::local_period_of(rule)});
  }
  scopes.push_back({workers_of(groups), rule.period});
  return scopes;
}

Coordinator::Coordinator(std::vector<Scope> scopes, std::string choice, uint64_t seed)
    : choice_(std::move(choice)), seed_(seed) {
  for (Scope& scope : scopes) {
    Progress& progress = scopes_.emplace_back();
    for (const int worker : scope.workers) progress.heard[worker] = 0;
    progress.scope = std::move(scope);
  }
}

std::vector<Coordinator::Order> Coordinator::report(int worker, double loss) {
  std::lock_guard lock(mutex_);
  losses_[worker] = loss;
  std::vector<Order> orders;
  for (int i = static_cast<int>(scopes_.size()) - 1; i >= 0; --i) {  // all first
    Progress& progress = scopes_[i];
    const auto heard = progress.heard.find(worker);
    if (heard == progress.heard.end()) continue;
    heard->second = progress.round;
    const int64_t due = progress.scope.period * static_cast<int64_t>(fresh(progress).size());
    if (++progress.count < due) continue;
    progress.count = 0;
    const int leader = choose(progress);
    ++progress.round;
    if (leader >= 0) orders.push_back({leader, i, progress.round});
  }
  return orders;
}

void Coordinator::lost(int worker) {
  std::lock_guard lock(mutex_);
  for (Progress& progress : scopes_) progress.heard.erase(worker);
  losses_.erase(worker);
}

bool Coordinator::is_heard_of(int worker) const {
  std::lock_guard lock(mutex_);
  const std::vector<int> ranks = fresh(scopes_.back());
  return std::find(ranks.begin(), ranks.end(), worker) != ranks.end();
}

std::vector<int> Coordinator::fresh(const Progress& progress) {
  std::vector<int> ranks;
  for (const auto& [worker, round] : progress.heard) {
    if (progress.round - round <= 1) ranks.push_back(worker);
  }
  return ranks;
}

// A worker that has diverged leads nobody: -1 when all have.
int Coordinator::choose(const Progress& progress) const {
  std::vector<int> ranks;
  std::vector<double> losses;
  for (const int worker : fresh(progress)) {
    const auto loss = losses_.find(worker);
    if (loss == losses_.end() || !std::isfinite(loss->second)) continue;
    ranks.push_back(worker);
    losses.push_back(loss->second);
  }
  if (ranks.empty()) return -1;
  const int index = choice_ == "stochastic" ? stochastic_leader(losses, uniform_at(seed_, progress.round))
                                            : best_leader(losses);
  return ranks[index];
}

CoordinatorService::CoordinatorService(transport::Transport& transport, const strategy::LsgdAsync& rule,
                                       const std::vector<std::vector<int>>& groups, uint64_t seed,
                                       std::function<void(Command)> tell)
    : transport_(transport),
      tell_(std::move(tell)),
      coordinator_(scopes_of(rule, groups), rule.choice, seed),
      attendance_(transport, without(workers_of(groups), transport.rank())) {
  inbox_ = std::make_unique<Inbox>(
      transport, without(workers_of(groups), transport.rank()), Channel::kReport,
      [this](int worker, transport::Payload message) { on_report(worker, std::move(message)); },
      [this](int worker, bool lost) { on_end(worker, lost); });
}

CoordinatorService::~CoordinatorService() {
  if (std::uncaught_exceptions() == 0) attendance_.wait();
  inbox_.reset();
}

void CoordinatorService::report(double loss) { give(coordinator_.report(transport_.rank(), loss)); }

void CoordinatorService::leave() { coordinator_.lost(transport_.rank()); }

void CoordinatorService::on_report(int worker, transport::Payload message) {
  const Heading heading = heading_of(message);
  if (heading.kind == kLoss) {
    {
      std::lock_guard lock(mutex_);
      known_[worker].resting = false;
    }
    return give(coordinator_.report(worker, heading.value));
  }
  std::lock_guard lock(mutex_);
  known_[worker] = {std::move(message), heading.number, heading.kind == kResting};
  changed_.notify_all();
}

void CoordinatorService::on_end(int worker, bool lost) {
  if (lost) {
    log_warn("rank {} is lost; the others go on", worker);
    std::lock_guard lock(mutex_);
    known_.erase(worker);
  }
  coordinator_.lost(worker);
  attendance_.ended(worker);
  changed_.notify_all();
  if (!lost) say_goodbye(transport_, worker, Channel::kCommand);
}

// Posts with no lock held: inproc may run other ranks' callbacks right here.
void CoordinatorService::give(const std::vector<Coordinator::Order>& orders) {
  for (const auto& [leader, scope, round] : orders) {
    if (leader == transport_.rank()) {
      tell_({kLead, scope, round});
    } else {
      post(transport_, leader, Channel::kCommand,
           make_message({.kind = kLead, .dtype = scope, .number = round}));
    }
  }
}

bool CoordinatorService::has_answered(int worker, int64_t number) {
  const Known& known = known_[worker];
  return known.resting || known.number >= number;
}

std::vector<torch::Tensor> CoordinatorService::collect(const std::vector<int>& workers, double timeout_s) {
  const Deadline deadline = Deadline::after(timeout_s);
  std::vector<int> asked;
  int64_t number;
  {
    std::lock_guard lock(mutex_);
    number = ++question_;
    for (const int worker : workers) {
      if (!known_[worker].resting && attendance_.is_present(worker) && coordinator_.is_heard_of(worker)) {
        asked.push_back(worker);
      }
    }
  }
  for (const int worker : asked) {
    post(transport_, worker, Channel::kCommand, make_message({.kind = kSendParameters, .number = number}));
  }
  std::unique_lock lock(mutex_);
  while (!deadline.passed()) {
    std::erase_if(asked, [&](int w) { return has_answered(w, number) || !attendance_.is_present(w); });
    if (asked.empty()) break;
    changed_.wait_for(lock, std::chrono::milliseconds(20));  // a silent process says nothing
  }
  std::vector<torch::Tensor> parameters;
  for (const int worker : workers) {
    Known& known = known_[worker];
    if (known.payload.size() > 0 && has_answered(worker, number))
      parameters.push_back(read_message(known.payload).vector.clone());
  }
  return parameters;
}

}  // namespace entrain::optim
