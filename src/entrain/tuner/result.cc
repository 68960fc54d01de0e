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

// What the final round says of a strategy.
struct Confirmed {
  double median_s = kInfinity;  // of all its steps; infinity: it was not in that round
  double fastest_s = kInfinity, slowest_s = kInfinity;  // of its trials
};

Confirmed confirmed(const std::vector<Trial>& trials, const Trial& of) {
  std::vector<double> steps, medians;
  for (const Trial& trial : trials) {
    if (trial.origin != kConfirmOrigin || !trial.ok() || !same(trial, of)) continue;
    steps.insert(steps.end(), trial.seconds.begin(), trial.seconds.end());
    medians.push_back(trial.step_s());
  }
  if (medians.empty()) return {};
  const auto [fastest, slowest] = std::minmax_element(medians.begin(), medians.end());
  return {median(std::move(steps)), *fastest, *slowest};
}

// Builders that ran, by their first trials.
std::vector<const Trial*> builders_by_time(const std::vector<Trial>& trials) {
  std::vector<const Trial*> builders;
  for (const Trial& trial : trials) {
    if (trial.origin == kBuilderOrigin && trial.ok()) builders.push_back(&trial);
  }
  std::stable_sort(builders.begin(), builders.end(),
                   [](const Trial* a, const Trial* b) { return a->step_s() < b->step_s(); });
  return builders;
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
  auto builders = builders_by_time(trials);
  if (order.empty() || builders.empty()) return {};
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return trials[a].step_s() < trials[b].step_s(); });
  order.resize(std::min(order.size(), static_cast<size_t>(std::max(count, 0))));
  builders.resize(std::min<size_t>(builders.size(), kFinalBuilders));
  for (const Trial* builder : builders) order.push_back(static_cast<size_t>(builder - trials.data()));
  return order;
}

TuneResult summarize(const std::vector<Trial>& trials) {
  const auto builders = builders_by_time(trials);
  if (builders.empty()) {
    const auto failed = std::find_if(trials.begin(), trials.end(), [](const Trial& t) { return !t.ok(); });
    fail("no builder's strategy has been measured{}", failed == trials.end() ? "" : ": " + failed->error);
  }
  TuneResult result;
  for (const Trial* b : builders) {
    const double again = confirmed(trials, *b).median_s;
    result.baselines.push_back({b->strategy.id, again < kInfinity ? again : b->step_s()});
  }
  std::stable_sort(result.baselines.begin(), result.baselines.end(),
                   [](const Standing& a, const Standing& b) { return a.seconds < b.seconds; });
  const Trial* builder =
      *std::min_element(builders.begin(), builders.end(), [&](const Trial* a, const Trial* b) {
        return confirmed(trials, *a).median_s < confirmed(trials, *b).median_s;
      });
  const Confirmed builder_again = confirmed(trials, *builder);
  const bool had_final_round = builder_again.median_s < kInfinity;
  result.best_baseline = builder->strategy.id;
  result.baseline_s = had_final_round ? builder_again.median_s : builder->step_s();

  const Trial* best = builder;
  double best_s = result.baseline_s;
  for (const Trial& trial : trials) {
    if (!trial.ok() || !is_proposed(trial)) continue;
    const Confirmed again = confirmed(trials, trial);
    if (had_final_round && again.slowest_s >= builder_again.fastest_s) continue;  // as fast, for all we know
    const double seconds = had_final_round ? again.median_s : trial.step_s();
    if (seconds < best_s) {
      best = &trial;
      best_s = seconds;
    }
  }
  result.is_baseline = best == builder;
  result.best = best->strategy;
  result.best_s = best_s;
  result.speedup = result.baseline_s / result.best_s;

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
