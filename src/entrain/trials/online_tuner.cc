#include "entrain/trials/online_tuner.h"

#include <cmath>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/base/quantile.h"
#include "entrain/base/units.h"
#include "entrain/tuner/recalibrate.h"

namespace entrain::trials {

OnlineTuner::OnlineTuner(const cluster::Cluster& cluster, OnlineTunerOptions options)
    : cluster_(cluster), options_(std::move(options)) {
  if (!options_.log.empty()) log_ = std::make_unique<dataset::TrialLog>(options_.log);
}

OnlineTuner::~OnlineTuner() {
  if (thinking_.valid()) thinking_.wait();
}

std::optional<strategy::Strategy> OnlineTuner::observe(const StepSeen& step,
                                                       const std::function<graph::Graph()>& profile) {
  ++seen_;
  switch (phase_) {
    case Phase::kWarmingUp:
      if (seen_ >= kWarmup) start_tune(profile());
      return std::nullopt;
    case Phase::kThinking:
      return next_task();
    case Phase::kTrial:
      ++tuned_;
      if (!step.first) samples_.push_back(step.seconds);
      if (samples_.size() < kSamples) return std::nullopt;
      {
        dataset::Trial trial = tuner::trial_of(*task_, {samples_, dataset::Status::kOk, ""});
        if (log_) log_->append(domain_->name, trial);
        tuner_->report(trial);
      }
      think();
      return next_task();
    case Phase::kSettling:
      if (step.first) return std::nullopt;
      phase_ = Phase::kSettled;
      window_.clear();
      settled_s_ = 0;
      [[fallthrough]];
    case Phase::kSettled:
      watch(step);
      return std::nullopt;
  }
  return std::nullopt;
}

// Builders, proposals and final round take about 5 steps per trial: as many as a tenth of the job allows.
void OnlineTuner::start_tune(const graph::Graph& graph) {
  tuner_.reset();
  domain_ = std::make_unique<dataset::Domain>();
  domain_->name = dataset::domain_name(options_.model, cluster_.name, options_.batch_size);
  if (tunes_ > 0) domain_->name += fmt::format(" tune {}", tunes_ + 1);
  domain_->graph = graph;
  domain_->graph.model = options_.model;
  domain_->graph.batch_size = options_.batch_size;
  domain_->cluster = cluster_;
  domain_->settings = {options_.batch_size, "real", "while training", options_.seed};
  if (log_) log_->begin(*domain_);
  tuner::TuneOptions tune;
  const int64_t affordable = options_.steps / 10 / 5;
  tune.trials = static_cast<int>(std::clamp<int64_t>(affordable - 18, 4, 50));
  if (affordable < 16) tune.builders = {"allreduce", "ps", "partitioned-ps", "byteps"};
  tune.finalists = 2;
  tune.confirm_rounds = 2;
  tune.search.seed = options_.seed + static_cast<uint64_t>(tunes_);
  tune.search.evaluations = 2000;  // it shares the machine with training
  tuner::Guide guide;
  guide.remake = tuner::recalibrating(domain_->graph, domain_->cluster);
  tuner_ = std::make_unique<tuner::Tuner>(*domain_, std::move(guide), std::move(tune));
  ++tunes_;
  think();
}

void OnlineTuner::think() {
  phase_ = Phase::kThinking;
  task_.reset();
  thinking_ = std::async(std::launch::async, [this] { return tuner_->next(); });
}

std::optional<strategy::Strategy> OnlineTuner::next_task() {
  if (thinking_.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) return std::nullopt;
  task_ = thinking_.get();
  if (!task_) return settle();
  phase_ = Phase::kTrial;
  samples_.clear();
  strategy::Strategy strategy = task_->strategy;
  strategy.id = fmt::format("auto-{}-{}", tunes_, task_->number);
  return strategy;
}

std::optional<strategy::Strategy> OnlineTuner::settle() {
  const tuner::TuneResult result = tuner_->result();
  settled_on_ = result.is_baseline ? result.best_baseline : fmt::format("auto-{}-best", tunes_);
  log_info("auto: settled on {}: {} per step, {:.2f}x the best builder ({}, {}) after {} trials",
           result.is_baseline ? settled_on_ : "a tuned strategy", format_seconds(result.best_s),
           result.speedup, result.best_baseline, format_seconds(result.baseline_s), result.trials);
  results_.push_back({{"best_step_time_s", result.best_s},
                      {"best_baseline", result.best_baseline},
                      {"best_baseline_step_time_s", result.baseline_s},
                      {"speedup", result.speedup},
                      {"hit_rate", result.hit_rate},
                      {"trials", result.trials}});
  phase_ = Phase::kSettling;
  strategy::Strategy best = result.best;
  best.id = settled_on_;
  return best;
}

// The network (or a host) has changed when steps take 20 % longer or shorter than when it settled.
void OnlineTuner::watch(const StepSeen& step) {
  window_.push_back(step.seconds);
  if (window_.size() < kWindow) return;
  const double now = median({window_.begin(), window_.end()});
  window_.pop_front();
  if (settled_s_ == 0) settled_s_ = now;
  if (std::abs(now / settled_s_ - 1) <= kDrift) return;
  const int64_t left = options_.steps - step.step;
  if (left < 10 * static_cast<int64_t>(kWindow)) {  // not worth it any more
    settled_s_ = now;
    return;
  }
  log_info("auto: a step takes {} now, {} when it settled: tuning again", format_seconds(now),
           format_seconds(settled_s_));
  options_.steps = left;
  seen_ = 0;
  phase_ = Phase::kWarmingUp;
}

nlohmann::json OnlineTuner::summary() const {
  return {{"tunes", results_}, {"tuning_steps", tuned_}, {"settled_on", settled_on_}};
}

}  // namespace entrain::trials
