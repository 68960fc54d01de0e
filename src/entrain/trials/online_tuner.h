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
#include "entrain/tuner/tuner.h"

namespace entrain::trials {

struct OnlineTunerOptions {
  std::string model;
  int64_t batch_size = 0;
  int64_t steps = 0;  // of the whole job: a tune takes at most about a tenth of them
  uint64_t seed = 0;
  std::filesystem::path log;  // trials.jsonl; empty: none
};

//   warming up ─▶ tuning: builders, proposals, final round ─▶ settled ─┐
//                    ▲                                                 │ steps take 20 % longer or shorter
//                    └─────────────────────────────────────────────────┘ than when it settled
//
// The search thinks on a thread of its own while training goes on under the strategy of the last trial.
class OnlineTuner final : public StrategyAdvisor {
 public:
  OnlineTuner(const cluster::Cluster& cluster, OnlineTunerOptions options);
  ~OnlineTuner() override;

  std::optional<strategy::Strategy> observe(const StepSeen& step,
                                            const std::function<graph::Graph()>& profile) override;

  // How often it tuned, what it found, for the report.
  nlohmann::json summary() const;

 private:
  static constexpr int64_t kWarmup = 8;  // steps before G's times are believed
  static constexpr size_t kSamples = 3;  // steps per trial
  static constexpr size_t kWindow = 20;  // steps whose median is watched once settled
  static constexpr double kDrift = 0.2;

  void start_tune(const graph::Graph& graph);
  void think();  // begins to look for the next task
  std::optional<strategy::Strategy> next_task();
  std::optional<strategy::Strategy> settle();
  void watch(const StepSeen& step);

  cluster::Cluster cluster_;
  OnlineTunerOptions options_;
  enum class Phase { kWarmingUp, kThinking, kTrial, kSettling, kSettled } phase_ = Phase::kWarmingUp;
  int64_t seen_ = 0;   // steps of this phase
  int64_t tuned_ = 0;  // steps spent on trials
  int tunes_ = 0;
  std::unique_ptr<dataset::Domain> domain_;  // the tuner's, which outlives it
  std::unique_ptr<tuner::Tuner> tuner_;
  std::unique_ptr<dataset::TrialLog> log_;
  std::future<std::optional<tuner::Task>> thinking_;
  std::optional<tuner::Task> task_;
  std::vector<double> samples_;
  std::deque<double> window_;
  double settled_s_ = 0;
  std::string settled_on_;
  nlohmann::json results_ = nlohmann::json::array();
};

}  // namespace entrain::trials
