// Tunes inside a running job: what strategy `auto` means. Every trial step is a training step.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <filesystem>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/trials/strategy_advisor.h"
#include "entrain/tuner/online/trial_price.h"
#include "entrain/tuner/tuner.h"

namespace entrain::trials {

struct OnlineTunerOptions {
  std::string model;
  int64_t batch_size = 0;
  int64_t steps = 0;  // of the whole job: a tune takes at most about a tenth of them
  uint64_t seed = 0;
  std::filesystem::path log = {};  // trials.jsonl; empty: none
  // Where shapes are searched, too.
  int64_t examples = 0;         // per update, of all ranks together
  int cores = 0;                // that emulated hosts share
  bool mixes_examples = false;  // the model does (batch norm): all shapes keep its micro-batches
  int optimizer_slots = 1;      // values per parameter that the optimizer keeps: 0 SGD, 1 momentum, 2 Adam
};

//   warming up ─▶ tuning: builders, proposals, final round ─▶ settled ─┐
//                    ▲                                                 │ steps take 20 % longer or shorter
//                    └─────────────────────────────────────────────────┘ than when it settled
//
// After begin() it searches shapes, too: one host alone is what the job begins with, then come planned
// shapes, then builders. A trial that costs more than it may bring is left out, and the search ends when that
// is so of any (tuner/online/trial_price.h).
//
// The search thinks on a thread of its own while training goes on under the strategy of the last trial.
class OnlineTuner final : public StrategyAdvisor {
 public:
  OnlineTuner(const cluster::Cluster& cluster, OnlineTunerOptions options);
  ~OnlineTuner() override;

  strategy::Strategy begin(const graph::Graph& profile) override;
  std::optional<strategy::Strategy> observe(const StepSeen& step,
                                            const std::function<graph::Graph()>& profile) override;

  // How often it tuned, what it tried and found, for the report.
  nlohmann::json summary() const;

 private:
  static constexpr int64_t kWarmup = 8;  // steps before G's times are believed
  static constexpr size_t kSamples = 3;  // steps per trial
  static constexpr size_t kWindow = 20;  // steps whose median is watched once settled
  static constexpr double kDrift = 0.2;

  void start_tune(const graph::Graph& graph, bool shapes);
  void add_shapes(tuner::TuneOptions& tune);
  void think();  // begins to look for the next task
  std::optional<tuner::Task> next_that_pays();
  void note(const dataset::Trial& trial);
  bool measured_enough() const;
  std::optional<strategy::Strategy> next_task();
  std::optional<strategy::Strategy> settle();
  void watch(const StepSeen& step);

  cluster::Cluster cluster_;
  OnlineTunerOptions options_;
  enum class Phase { kWarmingUp, kThinking, kTrial, kSettling, kSettled } phase_ = Phase::kWarmingUp;
  int64_t seen_ = 0;   // steps of this phase
  int64_t left_ = 0;   // steps of the job when the tune began
  int64_t tuned_ = 0;  // steps spent on trials
  int tunes_ = 0;
  std::unique_ptr<dataset::Domain> domain_;     // the tuner's, which outlives it
  std::unique_ptr<tuner::ShapeSource> shapes_;  // null: all layers stay on all ranks
  std::unique_ptr<tuner::TrialPrice> price_;    // with shapes_
  tuner::Underway underway_, asked_;            // with shapes_: now, and when it began to think
  std::unique_ptr<tuner::Tuner> tuner_;
  std::unique_ptr<dataset::TrialLog> log_;
  std::future<std::optional<tuner::Task>> thinking_;
  std::optional<tuner::Task> task_;
  std::vector<double> samples_;
  std::deque<double> window_;  // steps while warming up, and once settled
  double settled_s_ = 0;
  strategy::Strategy settled_;
  std::string settled_on_;
  nlohmann::json tried_ = nlohmann::json::array();  // by the tune under way
  nlohmann::json results_ = nlohmann::json::array();
};

}  // namespace entrain::trials
