#include "entrain/trials/online_tuner.h"

#include <cmath>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/base/quantile.h"
#include "entrain/base/units.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/tuner/online/micro_batches.h"
#include "entrain/tuner/recalibrate.h"
#include "entrain/tuner/shape_search.h"

namespace entrain::trials {
namespace {

// Steps that take this much longer than the best so far end their trial: it has lost. One may be an accident.
constexpr double kClearlySlower = 1.5;
constexpr int64_t kSlowerSteps = 2;
// Shapes that the local search simulates before each batch: it shares the machine with training.
constexpr int kEvaluations = 200;
constexpr int64_t kStepsPerShape = 40;  // of the job, for each that is tried

nlohmann::json to_json(const dataset::Trial& trial) {
  nlohmann::json json = {{"number", trial.number}, {"name", trial.strategy.id}, {"origin", trial.origin}};
  if (trial.strategy.shape) json["shape"] = strategy::to_text(*trial.strategy.shape);
  if (trial.ok()) {
    json["step_time_s"] = trial.step_s();
  } else {
    json["reason"] = trial.error;
  }
  return json;
}

}  // namespace

OnlineTuner::OnlineTuner(const cluster::Cluster& cluster, OnlineTunerOptions options)
    : cluster_(cluster), options_(std::move(options)), left_(options_.steps) {
  if (!options_.log.empty()) log_ = std::make_unique<dataset::TrialLog>(options_.log);
}

OnlineTuner::~OnlineTuner() {
  if (thinking_.valid()) thinking_.wait();
}

strategy::Strategy OnlineTuner::begin(const graph::Graph& profile) {
  underway_ = {strategy::data_parallel(static_cast<int>(profile.layers.size()), cluster_.worker_ranks()),
               options_.steps};
  start_tune(profile, /*shapes=*/true);
  thinking_.wait();
  return next_task().value_or(strategy::Strategy{});
}

std::optional<strategy::Strategy> OnlineTuner::observe(const StepSeen& step,
                                                       const std::function<graph::Graph()>& profile) {
  ++seen_;
  underway_.steps_left = options_.steps - step.step - 1;
  switch (phase_) {
    case Phase::kWarmingUp:
      window_.push_back(step.seconds);
      if (seen_ >= kWarmup) {
        shapes_ ? start_tune(graph::Graph(domain_->graph), true) : start_tune(profile(), false);
      }
      return std::nullopt;
    case Phase::kThinking:
      return next_task();
    case Phase::kTrial:
      ++tuned_;
      if (!step.first) samples_.push_back(step.seconds);
      if (!measured_enough()) return std::nullopt;
      note(tuner::trial_of(*task_, {samples_, dataset::Status::kOk, ""}));
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

bool OnlineTuner::measured_enough() const {
  if (samples_.size() >= kSamples) return true;
  const double best = tuner_->progress().best_s;
  const auto slower = [&](double seconds) { return seconds > kClearlySlower * best; };
  return price_ && best > 0 && std::count_if(samples_.begin(), samples_.end(), slower) >= kSlowerSteps;
}

void OnlineTuner::note(const dataset::Trial& trial) {
  if (log_) log_->append(domain_->name, trial);
  if (shapes_ && trial.ok()) {
    log_info("auto: {}: {} per step", trial.strategy.id, format_seconds(trial.step_s()));
  }
  tried_.push_back(to_json(trial));
  tuner_->report(trial);
}

// Builders, proposals and final round take about 5 steps per trial: as many as a tenth of the job allows.
void OnlineTuner::start_tune(const graph::Graph& graph, bool shapes) {
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
  if (shapes && tunes_ > 0) {  // what there is need not be left to find something better
    const std::vector<double> now(window_.begin(), window_.end());
    domain_->trials.push_back({0, settled_, now, dataset::Status::kOk, "settled before", ""});
  }
  tuner::TuneOptions tune;
  const int64_t affordable = left_ / 10 / 5;
  tune.trials = static_cast<int>(std::clamp<int64_t>(affordable - 18, 4, 50));
  if (affordable < 16) tune.builders = {"allreduce", "ps", "partitioned-ps", "byteps"};
  tune.finalists = 2;
  tune.confirm_rounds = 2;
  tune.search.seed = options_.seed + static_cast<uint64_t>(tunes_);
  tune.search.evaluations = 2000;  // it shares the machine with training
  simulator::Calibration start;
  if (shapes) {
    add_shapes(tune);
    start.cores = tuner::shared_cores(*domain_, options_.cores);
  }
  tuner::Guide guide;
  guide.remake = tuner::recalibrating(domain_->graph, domain_->cluster, start);
  tuner_ = std::make_unique<tuner::Tuner>(*domain_, std::move(guide), std::move(tune));
  tried_ = nlohmann::json::array();
  ++tunes_;
  think();
}

// Those that would cost more than they may bring are left out, so there may be more than without shapes.
// No plain pipelines to be compared with: the planner knows them, too.
void OnlineTuner::add_shapes(tuner::TuneOptions& tune) {
  tuner::ShapeSearchOptions search = tuner::shape_options(*domain_, options_.cores, options_.mixes_examples);
  search.pricer.examples = options_.examples;
  if (tunes_ > 0) {
    search.pricer.micro_batches = settled_.shape->micro_batches_or_default();
  } else if (!options_.mixes_examples) {
    search.pricer.micro_batches = tuner::micro_batches_for(*domain_, search);
  }
  search.pricer.optimizer_slots = options_.optimizer_slots;
  search.pipelines = 0;
  search.evaluations = kEvaluations;
  shapes_ = tuner::shapes_for(*domain_, search);
  if (!shapes_) return;
  tune.trials = static_cast<int>(std::clamp<int64_t>(left_ / kStepsPerShape, 4, 50));
  price_ = std::make_unique<tuner::TrialPrice>(*domain_, search, static_cast<int>(kSamples) + 1);
  tune.shapes = shapes_.get();
  tune.stop = [this] { return price_->nothing_left(tuner_->trials(), asked_.steps_left); };
}

void OnlineTuner::think() {
  phase_ = Phase::kThinking;
  task_.reset();
  asked_ = underway_;
  thinking_ = std::async(std::launch::async, [this] { return next_that_pays(); });
}

// Those that do not are noted as left out.
std::optional<tuner::Task> OnlineTuner::next_that_pays() {
  while (auto task = tuner_->next()) {
    if (price_ && task->hopeless.empty()) {
      task->hopeless = price_->objection(task->strategy, tuner_->trials(), asked_);
    }
    if (task->hopeless.empty()) return task;
    note(tuner::trial_of(*task, {{}, dataset::Status::kDeadline, task->hopeless}));
  }
  return std::nullopt;
}

std::optional<strategy::Strategy> OnlineTuner::next_task() {
  if (thinking_.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) return std::nullopt;
  task_ = thinking_.get();
  if (!task_) return settle();
  phase_ = Phase::kTrial;
  samples_.clear();
  strategy::Strategy strategy = task_->strategy;
  strategy.id = fmt::format("auto-{}-{}", tunes_, task_->number);
  if (price_) strategy.shape = underway_.shape = price_->shape_of(strategy);
  return strategy;
}

std::optional<strategy::Strategy> OnlineTuner::settle() {
  const tuner::TuneResult result = tuner_->result();
  settled_on_ = result.is_baseline ? result.best_baseline : fmt::format("auto-{}-best", tunes_);
  strategy::Strategy best = result.best;
  best.id = settled_on_;
  if (price_) best.shape = underway_.shape = price_->shape_of(best);
  log_info("auto: settled on {}: {} per step, {:.2f}x the best rival ({}, {}) after {} trials",
           best.shape           ? strategy::to_text(*best.shape)
           : result.is_baseline ? settled_on_
                                : "a tuned strategy",
           format_seconds(result.best_s), result.speedup,
           result.best_baseline.empty() ? "none was run" : result.best_baseline,
           format_seconds(result.baseline_s), result.trials);
  nlohmann::json json = {{"best_step_time_s", result.best_s},
                         {"best_baseline", result.best_baseline},
                         {"best_baseline_step_time_s", result.baseline_s},
                         {"speedup", result.speedup},
                         {"hit_rate", result.hit_rate},
                         {"trials", result.trials},
                         {"tried", tried_}};
  if (shapes_) {
    json["shape"] = strategy::to_text(underway_.shape);
    if (const auto* alone = result.fastest(tuner::kAloneOrigin))
      json["one_host_step_time_s"] = alone->seconds;
  }
  results_.push_back(std::move(json));
  settled_ = best;
  phase_ = Phase::kSettling;
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
  left_ = left;
  window_.clear();
  seen_ = 0;
  phase_ = Phase::kWarmingUp;
}

nlohmann::json OnlineTuner::summary() const {
  return {{"tunes", results_}, {"tuning_steps", tuned_}, {"settled_on", settled_on_}};
}

}  // namespace entrain::trials
