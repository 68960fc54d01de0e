#include "entrain/tuner/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "entrain/base/clock.h"
#include "entrain/base/error.h"
#include "entrain/base/units.h"
#include "entrain/plan/link_bound.h"
#include "entrain/strategy/builders/registry.h"

namespace entrain::tuner {
namespace {

using dataset::Trial;
using Phase = TuneProgress::Phase;

double steady_now() { return Seconds(Clock::now().time_since_epoch()).count(); }

constexpr double kNever = std::numeric_limits<double>::infinity();

bool any_rival_ran(const std::vector<Trial>& trials) {
  return std::any_of(trials.begin(), trials.end(),
                     [](const Trial& trial) { return is_rival(trial.origin) && trial.ok(); });
}

// The least step time of the trials that `counts` says yes to; infinity: there is none.
template <typename Counts>
double least(const std::vector<Trial>& trials, const Counts& counts) {
  double best = kNever;
  for (const Trial& trial : trials) {
    if (trial.ok() && counts(trial)) best = std::min(best, trial.step_s());
  }
  return best;
}

// A rival that takes this much longer than the best so far is not measured to the end.
constexpr double kClearlySlower = 1.5;
constexpr double kLeastDeadline = 0.25;  // seconds: shorter steps are too noisy to be judged by one
// A lead that another kind of strategies is not expected to make up for: no more of them are proposed.
constexpr double kLead = 1.3;
constexpr int kShapeBatches = 3;  // before the builders

}  // namespace

std::string TuneProgress::summary() const {
  if (phase == Phase::kConfirm) return "final round";
  if (phase == Phase::kShapes) return "shapes";
  if (best_s <= 0 || phase == Phase::kBuilders) return "builders";
  return fmt::format("best {}, {:.2f}x the best {}", format_seconds(best_s), speedup,
                     with_shapes ? "rival" : "builder");
}

Tuner::Tuner(const dataset::Domain& domain, Guide guide, TuneOptions options)
    : domain_(domain),
      options_(std::move(options)),
      search_(domain.graph, domain.cluster, std::move(guide), options_.search) {
  if (!options_.now) options_.now = steady_now;
  if (options_.builders.empty()) options_.builders = strategy::names();
  start_s_ = options_.now();
  if (options_.shapes == nullptr) {
    queue_builders();
    resume(domain.trials);
    return;
  }
  phase_ = Phase::kShapes;
  for (const Trial& trial : domain.trials) take(trial);
  queue(options_.shapes->rivals());
}

void Tuner::take(const Trial& trial) {
  if (!trial.strategy.shape) search_.tell(trial);
  if (is_proposed(trial)) ++proposed_;
  next_number_ = std::max(next_number_, trial.number + 1);
  trials_.push_back(trial);
}

void Tuner::queue_builders() {
  for (const std::string& name : options_.builders) {
    const bool ran = std::any_of(domain_.trials.begin(), domain_.trials.end(), [&](const Trial& trial) {
      return trial.origin == kBuilderOrigin && trial.strategy.id == name;
    });
    if (ran) continue;
    queue_.push_back(
        {strategy::build(name, domain_.graph, domain_.cluster, options_.search.seed), kBuilderOrigin});
  }
}

// Those that have not been tried.
void Tuner::queue(std::vector<Proposal> proposals) {
  for (Proposal& proposal : proposals) {
    const bool tried = std::any_of(trials_.begin(), trials_.end(), [&](const Trial& trial) {
      return same(trial.strategy, proposal.strategy);
    });
    if (!tried) queue_.push_back({std::move(proposal.strategy), std::move(proposal.origin)});
  }
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
    const bool begins = is_proposed(trial) && proposed_ == whole && queue_.empty();
    if (begins && proposed_ < options_.trials) again = search_.ask();
    take(trial);
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

// Of both kinds, shapes and none, unless the other one leads by too much.
void Tuner::queue_proposals() {
  const double shaped = least(trials_, [](const Trial& trial) { return trial.strategy.shape.has_value(); });
  const double whole = least(trials_, [](const Trial& trial) { return !trial.strategy.shape; });
  if (options_.shapes != nullptr && shaped <= kLead * whole) queue(options_.shapes->ask(trials_));
  if (whole == kNever || whole > kLead * shaped) return;
  for (Proposal& proposal : search_.ask()) queue_.push_back({std::move(proposal.strategy), proposal.origin});
}

// The next phase, or more of this one. False: the tune is over.
bool Tuner::fill_queue() {
  switch (phase_) {
    case Phase::kShapes:
      if (shape_batches_++ < kShapeBatches && may_search()) queue(options_.shapes->ask(trials_));
      if (!queue_.empty()) return true;
      phase_ = Phase::kBuilders;
      queue_builders();
      return true;
    case Phase::kBuilders:
      phase_ = Phase::kSearch;
      return any_rival_ran(trials_);  // else there is nothing to beat, and most likely nothing works
    case Phase::kSearch:
      if (may_search()) queue_proposals();
      if (!queue_.empty()) return true;
      phase_ = Phase::kConfirm;
      plan_final_round();
      return !queue_.empty();
    case Phase::kConfirm:
      return false;
  }
  return false;
}

std::optional<Task> Tuner::next() {
  if (options_.stop && options_.stop()) return std::nullopt;
  const bool proposing = phase_ == Phase::kSearch || phase_ == Phase::kShapes;
  if (proposing && !may_search()) {
    std::erase_if(queue_, [](const Waiting& waiting) { return !is_rival(waiting.origin); });
  }
  while (queue_.empty()) {
    if (!fill_queue()) return std::nullopt;
  }
  Task task{next_number_++, std::move(queue_.front().strategy), std::move(queue_.front().origin)};
  queue_.pop_front();
  task.deadline_s = options_.deadline_s;
  if (phase_ == Phase::kSearch && !task.strategy.shape) {
    task.strategy.id = fmt::format("trial-{}", task.number);
  }
  if (options_.shapes != nullptr && phase_ == Phase::kBuilders) judge(task);
  return task;
}

// A builder need not be run where the links alone make it clearly slower than what was found, and not to
// the end where its first step does.
void Tuner::judge(Task& task) const {
  const double best = least(trials_, [](const Trial&) { return true; });
  if (best == kNever) return;
  const plan::Plan plan = plan::make_plan(task.strategy, domain_.graph, domain_.cluster);
  const double bound = plan::link_bound(plan, domain_.graph, domain_.cluster).seconds;
  if (bound > kClearlySlower * best) {
    task.hopeless = fmt::format("not run: the links allow no step under {}", format_seconds(bound));
  }
  task.deadline_s = std::min(task.deadline_s, std::max(kLeastDeadline, kClearlySlower * best));
}

int Tuner::final_trials() const {
  const int builders = kFinalBuilders + (options_.reference.empty() ? 0 : 1);
  return options_.confirm_rounds * (options_.finalists + builders);
}

// Alternately, so that a slowing machine affects all equally. With shapes, those that were clearly slower run
// once more only: their steps may take seconds.
void Tuner::plan_final_round() {
  const std::vector<size_t> candidates = finalists(trials_, options_.finalists, options_.reference);
  const double best = least(trials_, [](const Trial&) { return true; });
  for (int round = 0; round < options_.confirm_rounds; ++round) {
    for (const size_t i : candidates) {
      const bool slower = options_.shapes != nullptr && trials_[i].step_s() > kClearlySlower * best;
      if (slower && round > 0) continue;
      const auto ran = std::count_if(trials_.begin(), trials_.end(), [&](const Trial& trial) {
        return trial.origin == kConfirmOrigin && same(trial.strategy, trials_[i].strategy);
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

void Tuner::report(const Trial& trial) {
  ++reported_;
  take(trial);
}

TuneProgress Tuner::progress() const {
  TuneProgress p;
  p.phase = phase_;
  p.done = static_cast<int>(trials_.size());
  const int waiting = static_cast<int>(queue_.size());
  if (phase_ == Phase::kConfirm) {
    p.total = p.done + waiting;
  } else {
    int builders = phase_ == Phase::kBuilders ? waiting : 0;
    if (phase_ == Phase::kShapes) builders = static_cast<int>(options_.builders.size());
    p.total = p.done + builders + std::max(0, options_.trials - proposed_) + final_trials();
  }
  p.with_shapes = options_.shapes != nullptr;
  const double rival = least(trials_, [](const Trial& trial) { return is_rival(trial.origin); });
  const double best = least(trials_, [](const Trial&) { return true; });
  int ok = 0, hits = 0;
  for (const Trial& trial : trials_) {
    if (!trial.ok() || !is_proposed(trial)) continue;
    ++ok;
    if (trial.step_s() < rival) ++hits;
  }
  p.hit_rate = ok > 0 ? static_cast<double>(hits) / ok : 0;
  if (best < kNever) p.best_s = best;
  if (rival < kNever) {
    p.baseline_s = rival;
    p.speedup = rival / best;
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
      measured = task->hopeless.empty() ? runner.run(task->strategy, task->deadline_s)
                                        : Measured{{}, dataset::Status::kDeadline, task->hopeless};
    } catch (const PeerError& error) {
      measured = {{}, dataset::Status::kFailed, error.what()};
      broken = std::current_exception();
    } catch (const std::exception& error) {
      measured = {{}, dataset::Status::kFailed, error.what()};
    }
    Trial trial = trial_of(*task, measured);
    log.append(domain.name, trial);
    tuner.report(trial);
    if (broken) std::rethrow_exception(broken);
    if (observer) observer(tuner.progress());
  }
  return tuner.result();
}

}  // namespace entrain::tuner
