#include "entrain/tuner/result.h"

#include <algorithm>
#include <limits>
#include <map>

#include "entrain/base/error.h"
#include "entrain/base/quantile.h"

namespace entrain::tuner {
namespace {

using dataset::Trial;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One by one: for a range inserted, and for a resize(), g++ 13 warns falsely of memory outside the vector.
void append(std::vector<double>& to, const std::vector<double>& more) {
  for (const double each : more) to.push_back(each);
}

// What the final round says of a strategy.
struct Confirmed {
  double median_s = kInfinity;  // of all its steps; infinity: it was not in that round
  double fastest_s = kInfinity, slowest_s = kInfinity;  // of its trials
};

Confirmed confirmed(const std::vector<Trial>& trials, const Trial& of) {
  std::vector<double> steps, medians;
  for (const Trial& trial : trials) {
    if (trial.origin != kConfirmOrigin || !trial.ok() || !same(trial.strategy, of.strategy)) continue;
    append(steps, trial.seconds);
    medians.push_back(trial.step_s());
  }
  if (medians.empty()) return {};
  const auto [fastest, slowest] = std::minmax_element(medians.begin(), medians.end());
  return {median(std::move(steps)), *fastest, *slowest};
}

Standing standing_of(const std::vector<Trial>& trials, const Trial& trial) {
  Standing standing;
  standing.name = trial.strategy.id;
  standing.origin = trial.origin;
  standing.seconds = standing.first_look_s = trial.step_s();
  standing.fastest_s = quantile(trial.seconds, 0.1);
  standing.slowest_s = quantile(trial.seconds, 0.9);
  const Confirmed again = confirmed(trials, trial);
  if (again.median_s == kInfinity) return standing;
  standing.final_round = true;
  standing.seconds = again.median_s;
  standing.fastest_s = again.fastest_s;
  standing.slowest_s = again.slowest_s;
  return standing;
}

// Those that ran, by their first trials.
std::vector<const Trial*> rivals_by_time(const std::vector<Trial>& trials) {
  std::vector<const Trial*> rivals;
  for (const Trial& trial : trials) {
    if (is_rival(trial.origin) && trial.ok()) rivals.push_back(&trial);
  }
  std::stable_sort(rivals.begin(), rivals.end(),
                   [](const Trial* a, const Trial* b) { return a->step_s() < b->step_s(); });
  return rivals;
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

void count_those_not_ok(const std::vector<Trial>& trials, TuneResult& result) {
  for (const Trial& trial : trials) {
    if (!trial.ok()) ++result.failed;
    if (is_rival(trial.origin) && trial.status == dataset::Status::kDeadline) {
      result.left_out.push_back({trial.strategy.id, trial.error});
    }
  }
}

// All were left out as slower than what was found.
TuneResult without_rivals(const std::vector<Trial>& trials) {
  const Trial* best = nullptr;
  for (const Trial& trial : trials) {
    if (is_rival(trial.origin) && trial.status == dataset::Status::kFailed) {
      fail("no builder's strategy has been measured: {}", trial.error);
    }
    if (trial.ok() && (best == nullptr || trial.step_s() < best->step_s())) best = &trial;
  }
  if (best == nullptr) fail("no builder's strategy has been measured");
  TuneResult result;
  result.tuned = standing_of(trials, *best);
  result.best = best->strategy;
  result.best_s = result.baseline_s = best->step_s();
  count_those_not_ok(trials, result);
  result.curve = curve_of(trials, result.baseline_s);
  result.trials = static_cast<int>(result.curve.size());
  return result;
}

}  // namespace

bool is_rival(const std::string& origin) {
  return origin == kBuilderOrigin || origin == kAloneOrigin || origin == kPipelineOrigin;
}

bool is_proposed(const Trial& trial) { return !is_rival(trial.origin) && trial.origin != kConfirmOrigin; }

bool same(const strategy::Strategy& a, const strategy::Strategy& b) {
  return a.variables == b.variables && a.shape == b.shape;
}

const Standing* TuneResult::find(const std::string& builder) const {
  const auto found = std::find_if(baselines.begin(), baselines.end(),
                                  [&](const Standing& standing) { return standing.name == builder; });
  return found == baselines.end() ? nullptr : &*found;
}

const Standing* TuneResult::fastest(const std::string& origin) const {
  const Standing* found = nullptr;  // those of the final round come first
  for (const Standing& standing : baselines) {
    if (standing.origin != origin) continue;
    const bool same_round = found != nullptr && standing.final_round == found->final_round;
    if (found == nullptr || (same_round && standing.seconds < found->seconds)) found = &standing;
  }
  return found;
}

std::vector<std::string> TuneResult::within_noise() const {
  std::vector<std::string> names;
  for (const Standing& b : baselines) {
    const bool itself = is_baseline && b.name == best_baseline;
    if (itself || b.final_round != tuned.final_round) continue;
    if (b.fastest_s <= tuned.slowest_s) names.push_back(b.name);
  }
  return names;
}

std::vector<size_t> finalists(const std::vector<Trial>& trials, int count, const std::string& reference) {
  std::vector<size_t> proposed;
  for (size_t i = 0; i < trials.size(); ++i) {
    if (is_proposed(trials[i]) && trials[i].ok()) proposed.push_back(i);
  }
  const auto rivals = rivals_by_time(trials);
  if (proposed.empty() || rivals.empty()) return {};
  std::stable_sort(proposed.begin(), proposed.end(),
                   [&](size_t a, size_t b) { return trials[a].step_s() < trials[b].step_s(); });
  std::vector<size_t> chosen;
  const size_t most_proposed = std::min(proposed.size(), static_cast<size_t>(std::max(count, 0)));
  for (size_t i = 0; i < most_proposed; ++i) chosen.push_back(proposed[i]);
  std::map<std::string, int> joined;  // by origin
  for (const Trial* rival : rivals) {
    const int most = rival->origin == kBuilderOrigin ? kFinalBuilders : 1;
    const bool joins = joined[rival->origin]++ < most || rival->strategy.id == reference;
    if (joins) chosen.push_back(static_cast<size_t>(rival - trials.data()));
  }
  return chosen;
}

TuneResult summarize(const std::vector<Trial>& trials) {
  const auto rivals = rivals_by_time(trials);
  if (rivals.empty()) return without_rivals(trials);
  TuneResult result;
  for (const Trial* each : rivals) result.baselines.push_back(standing_of(trials, *each));
  std::stable_sort(result.baselines.begin(), result.baselines.end(),
                   [](const Standing& a, const Standing& b) {
                     return a.final_round != b.final_round ? a.final_round : a.seconds < b.seconds;
                   });
  const Trial* rival = *std::min_element(rivals.begin(), rivals.end(), [&](const Trial* a, const Trial* b) {
    return confirmed(trials, *a).median_s < confirmed(trials, *b).median_s;
  });
  const Confirmed rival_again = confirmed(trials, *rival);
  const bool had_final_round = rival_again.median_s < kInfinity;
  result.best_baseline = rival->strategy.id;
  result.baseline_s = had_final_round ? rival_again.median_s : rival->step_s();

  const Trial* best = rival;
  double best_s = result.baseline_s;
  for (const Trial& trial : trials) {
    if (!trial.ok() || !is_proposed(trial)) continue;
    const Confirmed again = confirmed(trials, trial);
    if (had_final_round && again.slowest_s >= rival_again.fastest_s) continue;  // as fast, for all we know
    const double seconds = had_final_round ? again.median_s : trial.step_s();
    if (seconds < best_s) {
      best = &trial;
      best_s = seconds;
    }
  }
  result.had_final_round = had_final_round;
  result.is_baseline = best == rival;
  result.tuned = standing_of(trials, *best);
  result.best = best->strategy;
  result.best_s = best_s;
  result.speedup = result.baseline_s / result.best_s;

  std::vector<double> pooled = rival->seconds;  // its first run and the final round
  count_those_not_ok(trials, result);
  for (const Trial& trial : trials) {
    if (trial.origin == kConfirmOrigin && trial.ok() && same(trial.strategy, rival->strategy)) {
      append(pooled, trial.seconds);
    }
  }
  result.curve = curve_of(trials, median(std::move(pooled)));
  result.trials = static_cast<int>(result.curve.size());
  if (!result.curve.empty()) result.hit_rate = result.curve.back().hit_rate;
  return result;
}

}  // namespace entrain::tuner
