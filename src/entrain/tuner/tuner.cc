#include "entrain/tuner/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "entrain/base/clock.h"
#include "entrain/base/error.h"
#include "entrain/base/units.h"
#include "entrain/strategy/builders/registry.h"

namespace entrain::tuner {
namespace {

using dataset::Trial;
using Phase = TuneProgress::Phase;

double steady_now() { return Seconds(Clock::now().time_since_epoch()).count(); }

bool same_variables(const strategy::Strategy& a, const strategy::Strategy& b) {
  return a.variables == b.variables;
}

bool any_builder_ran(const std::vector<Trial>& trials) {
  return std::any_of(trials.begin(), trials.end(),
                     [](const Trial& trial) { return trial.origin == kBuilderOrigin && trial.ok(); });
}

}  // namespace

std::string TuneProgress::summary() const {
  if (phase == Phase::kConfirm) return "final round";
  if (best_s <= 0 || phase == Phase::kBuilders) return "builders";
  return fmt::format("best {}, {:.2f}x the best builder", format_seconds(best_s), speedup);
}

Tuner::Tuner(const dataset::Domain& domain, Guide guide, TuneOptions options)
    : domain_(domain),
      options_(std::move(options)),
      search_(domain.graph, domain.cluster, std::move(guide), options_.search) {
  if (!options_.now) options_.now = steady_now;
  if (options_.builders.empty()) options_.builders = strategy::names();
  start_s_ = options_.now();
  for (const std::string& name : options_.builders) {
    const bool ran = std::any_of(domain.trials.begin(), domain.trials.end(), [&](const Trial& trial) {
      return trial.origin == kBuilderOrigin && trial.strategy.id == name;
    });
    if (ran) continue;
    queue_.push_back(
        {strategy::build(name, domain.graph, domain.cluster, options_.search.seed), kBuilderOrigin});
  }
  resume(domain.trials);
}

// Killed in the middle of a batch, the earlier run had proposals that it did not try. They are asked for
// again, with what was known when that batch began.
void Tuner::resume(const std::vector<Trial>& earlier) {
  int all = 0;
  for (const Trial& trial : earlier) all += is_proposed(trial) ? 1 : 0;
  const int batch = std::max(options_.search.batch.size, 1);
  const int whole = all - all % batch;
  std::vector<Proposal> again;
  for (const Trial& trial : earlier) {
    if (is_proposed(trial)) {
      if (proposed_ == whole && queue_.empty() && proposed_ < options_.trials) again = search_.ask();
      ++proposed_;
    }
    search_.tell(trial);
    trials_.push_back(trial);
    next_number_ = std::max(next_number_, trial.number + 1);
  }
  for (Proposal& proposal : again) {
    if (!search_.tried(proposal.strategy)) queue_.push_back({std::move(proposal.strategy), proposal.origin});
  }
  if (!again.empty()) phase_ = Phase::kSearch;
}

bool Tuner::may_search() const {
  if (proposed_ >= options_.trials) return false;
  if (options_.minutes <= 0 || reported_ == 0) return true;
  const double spent = options_.now() - start_s_;
  return spent + final_trials() * spent / reported_ < options_.minutes * 60;
}

std::optional<Task> Tuner::next() {
  if (options_.stop && options_.stop()) return std::nullopt;
  if (phase_ == Phase::kBuilders && queue_.empty()) {
    if (!any_builder_ran(trials_)) return std::nullopt;  // nothing to beat, and most likely nothing works
    phase_ = Phase::kSearch;
  }
  if (phase_ == Phase::kSearch && !may_search()) queue_.clear();
  if (phase_ == Phase::kSearch && queue_.empty()) {
    std::vector<Proposal> batch;
    if (may_search()) batch = search_.ask();
    for (Proposal& proposal : batch) queue_.push_back({std::move(proposal.strategy), proposal.origin});
    if (queue_.empty()) {
      phase_ = Phase::kConfirm;
      plan_final_round();
    }
  }
  if (queue_.empty()) return std::nullopt;
  Task task{next_number_++, std::move(queue_.front().strategy), std::move(queue_.front().origin)};
  queue_.pop_front();
  if (phase_ == Phase::kSearch) task.strategy.id = fmt::format("trial-{}", task.number);
  return task;
}

int Tuner::final_trials() const {
  const int builders = kFinalBuilders + (options_.reference.empty() ? 0 : 1);
  return options_.confirm_rounds * (options_.finalists + builders);
}

// Alternately, so that a slowing machine affects all equally.
void Tuner::plan_final_round() {
  const std::vector<size_t> candidates = finalists(trials_, options_.finalists, options_.reference);
  for (int round = 0; round < options_.confirm_rounds; ++round) {
    for (const size_t i : candidates) {
      const auto ran = std::count_if(trials_.begin(), trials_.end(), [&](const Trial& trial) {
        return trial.origin == kConfirmOrigin && same_variables(trial.strategy, trials_[i].strategy);
      });
      if (ran <= round) queue_.push_back({trials_[i].strategy, kConfirmOrigin});
    }
  }
}

Trial trial_of(const Task& task, const Measured& measured) {
  Trial trial{task.number, task.strategy, measured.seconds, measured.status, task.origin, measured.error};
  if (trial.status == dataset::Status::kOk && trial.seconds.empty()) {
    trial.status = dataset::Status::kFailed;
    trial.error = "no step was measured";
  }
  return trial;
}

void Tuner::report(Trial trial) {
  search_.tell(trial);
  if (is_proposed(trial)) ++proposed_;
  ++reported_;
  trials_.push_back(std::move(trial));
}

TuneProgress Tuner::progress() const {
  TuneProgress p;
  p.phase = phase_;
  p.done = static_cast<int>(trials_.size());
  const int waiting = static_cast<int>(queue_.size());
  if (phase_ == Phase::kConfirm) {
    p.total = p.done + waiting;
  } else {
    const int builders = phase_ == Phase::kBuilders ? waiting : 0;
    p.total = p.done + builders + std::max(0, options_.trials - proposed_) + final_trials();
  }
  double builder = std::numeric_limits<double>::infinity(), best = builder;
  int ok = 0, hits = 0;
  for (const Trial& trial : trials_) {
    if (!trial.ok()) continue;
    best = std::min(best, trial.step_s());
    if (trial.origin == kBuilderOrigin) builder = std::min(builder, trial.step_s());
  }
  for (const Trial& trial : trials_) {
    if (!trial.ok() || !is_proposed(trial)) continue;
    ++ok;
    if (trial.step_s() < builder) ++hits;
  }
  p.hit_rate = ok > 0 ? static_cast<double>(hits) / ok : 0;
  if (best < std::numeric_limits<double>::infinity()) p.best_s = best;
  if (builder < std::numeric_limits<double>::infinity()) {
    p.baseline_s = builder;
    p.speedup = builder / best;
  }
  if (!trials_.empty()) p.last = &trials_.back();
  return p;
}

TuneResult tune(const dataset::Domain& domain, TrialRunner& runner, dataset::TrialLog& log,
                const Guide& guide, const TuneOptions& options,
                const std::function<void(const TuneProgress&)>& observer) {
  log.begin(domain);
  Tuner tuner(domain, guide, options);
  while (const std::optional<Task> task = tuner.next()) {
    Measured measured;
    std::exception_ptr broken;
    try {
      measured = runner.run(task->strategy, options.deadline_s);
    } catch (const PeerError& error) {
      measured = {{}, dataset::Status::kFailed, error.what()};
      broken = std::current_exception();
    } catch (const std::exception& error) {
      measured = {{}, dataset::Status::kFailed, error.what()};
    }
    Trial trial = trial_of(*task, measured);
    log.append(domain.name, trial);
    tuner.report(std::move(trial));
    if (broken) std::rethrow_exception(broken);
    if (observer) observer(tuner.progress());
  }
  return tuner.result();
}

}  // namespace entrain::tuner
