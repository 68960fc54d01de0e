#include "entrain/tuner/result.h"

#include <algorithm>
#include <limits>

#include "entrain/base/error.h"
#include "entrain/base/quantile.h"

namespace entrain::tuner {
namespace {

using dataset::Trial;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Ids are only names: the same strategy may have been run under another.
bool same(const Trial& a, const Trial& b) { return a.strategy.variables == b.strategy.variables; }

// Median of all steps of confirming trials of the same strategy; infinity when there is none.
double confirmed(const std::vector<Trial>& trials, const Trial& of) {
  std::vector<double> seconds;
  for (const Trial& trial : trials) {
    if (trial.origin != kConfirmOrigin || !trial.ok() || !same(trial, of)) continue;
    seconds.insert(seconds.end(), trial.seconds.begin(), trial.seconds.end());
  }
  return seconds.empty() ? kInfinity : median(std::move(seconds));
}

const Trial* best_builder(const std::vector<Trial>& trials) {
  const Trial* best = nullptr;
  for (const Trial& trial : trials) {
    if (trial.origin != kBuilderOrigin || !trial.ok()) continue;
    if (best == nullptr || trial.step_s() < best->step_s()) best = &trial;
  }
  return best;
}

std::vector<CurvePoint> curve_of(const std::vector<Trial>& trials, double baseline_s) {
  std::vector<CurvePoint> curve;
  double best = kInfinity;
  int count = 0, ok = 0, hits = 0;
  for (const Trial& trial : trials) {
    if (!is_proposed(trial)) continue;
    ++count;
    if (trial.ok()) {
      ++ok;
      best = std::min(best, trial.step_s());
      if (trial.step_s() < baseline_s) ++hits;
    }
    curve.push_back({count, best, baseline_s / best, ok > 0 ? static_cast<double>(hits) / ok : 0});
  }
  return curve;
}

}  // namespace

bool is_proposed(const Trial& trial) {
  return trial.origin != kBuilderOrigin && trial.origin != kConfirmOrigin;
}

std::vector<size_t> finalists(const std::vector<Trial>& trials, int count) {
  std::vector<size_t> order;
  for (size_t i = 0; i < trials.size(); ++i) {
    if (is_proposed(trials[i]) && trials[i].ok()) order.push_back(i);
  }
  const Trial* builder = best_builder(trials);
  if (order.empty() || builder == nullptr) return {};
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return trials[a].step_s() < trials[b].step_s(); });
  order.resize(std::min(order.size(), static_cast<size_t>(std::max(count, 0))));
  order.push_back(static_cast<size_t>(builder - trials.data()));
  return order;
}

TuneResult summarize(const std::vector<Trial>& trials) {
  const Trial* builder = best_builder(trials);
  if (builder == nullptr) {
    const auto failed = std::find_if(trials.begin(), trials.end(), [](const Trial& t) { return !t.ok(); });
    fail("no builder's strategy has been measured{}", failed == trials.end() ? "" : ": " + failed->error);
  }
  TuneResult result;
  result.best_baseline = builder->strategy.id;
  const double builder_again = confirmed(trials, *builder);
  result.baseline_s = builder_again < kInfinity ? builder_again : builder->step_s();

  const Trial* best = nullptr;
  double best_s = kInfinity;
  for (const Trial& trial : trials) {
    if (!trial.ok()) continue;
    if (is_proposed(trial)) {
      const double seconds = builder_again < kInfinity ? confirmed(trials, trial) : trial.step_s();
      if (seconds < best_s) {
        best = &trial;
        best_s = seconds;
      }
    } else if (trial.origin == kBuilderOrigin) {
      result.baselines.push_back({trial.strategy.id, trial.step_s()});
    }
  }
  result.is_baseline = best == nullptr || best_s >= result.baseline_s;
  result.best = result.is_baseline ? builder->strategy : best->strategy;
  result.best_s = result.is_baseline ? result.baseline_s : best_s;
  result.speedup = result.baseline_s / result.best_s;

  std::stable_sort(result.baselines.begin(), result.baselines.end(),
                   [](const Standing& a, const Standing& b) { return a.seconds < b.seconds; });
  std::vector<double> pooled = builder->seconds;  // its first run and the final round
  for (const Trial& trial : trials) {
    if (!trial.ok()) ++result.failed;
    if (trial.origin == kConfirmOrigin && trial.ok() && same(trial, *builder)) {
      pooled.insert(pooled.end(), trial.seconds.begin(), trial.seconds.end());
    }
  }
  result.curve = curve_of(trials, median(std::move(pooled)));
  result.trials = static_cast<int>(result.curve.size());
  if (!result.curve.empty()) result.hit_rate = result.curve.back().hit_rate;
  return result;
}

}  // namespace entrain::tuner
