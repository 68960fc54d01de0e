#include "entrain/parallel/step_profile.h"

#include <algorithm>

#include "entrain/base/quantile.h"

namespace entrain::parallel {

// Computing seconds since the last lap.
double StepProfile::lap(double excluded) {
  const auto now = Clock::now();
  const double seconds = Seconds(now - last_).count() - (excluded - excluded_);
  last_ = now;
  excluded_ = excluded;
  return std::max(0.0, seconds);
}

void StepProfile::forward_begins(double excluded) {
  step_ = {std::vector<double>(variables_), std::vector<double>(variables_), {}};
  forward_seen_ = true;
  at_variable_ = false;
  current_ = 0;
  lap(excluded);
}

// What comes before the first read only prepares the batch: it counts to the first variable.
void StepProfile::reads(size_t v, double excluded) {
  if (!forward_seen_ || (at_variable_ && v == current_)) return;
  step_.forward[at_variable_ ? current_ : v] += lap(excluded);
  at_variable_ = true;
  current_ = v;
}

void StepProfile::forward_ends(double excluded) {
  if (forward_seen_) step_.forward[current_] += lap(excluded);
}

void StepProfile::forget() { forward_seen_ = false; }

void StepProfile::backward_begins() { last_ = Clock::now(); }

void StepProfile::made(size_t v) {
  if (!forward_seen_) return;
  step_.backward[v] += lap(excluded_);
  step_.order.push_back(v);
}

void StepProfile::backward_ends() {
  if (!forward_seen_) return;
  if (!step_.order.empty()) step_.backward[step_.order.back()] += lap(excluded_);
  kept_.push_back(std::move(step_));
  if (kept_.size() > kKept) kept_.pop_front();
  forward_seen_ = false;
}

void StepProfile::fill(graph::Graph& graph) const {
  for (size_t v = 0; v < variables_; ++v) {
    std::vector<double> forward, backward;
    for (const Step& step : kept_) {
      forward.push_back(step.forward[v]);
      backward.push_back(step.backward[v]);
    }
    graph.variables[v].forward_s = median(std::move(forward));
    graph.variables[v].backward_s = median(std::move(backward));
  }
}

}  // namespace entrain::parallel
