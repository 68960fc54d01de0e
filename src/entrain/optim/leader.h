// Who leads: the worker with the lowest mean loss over a window of its own steps, or one drawn with better
// odds for lower losses. Pure: every worker computes the same leader from the same losses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace entrain::optim {

// The losses of the last `window` steps.
class LossWindow {
 public:
  explicit LossWindow(int64_t window) : window_(static_cast<size_t>(window)) {}

  void add(double loss);
  // Infinity while empty: who has not trained does not lead.
  double mean() const;

  std::vector<double> values() const { return {values_.begin(), values_.end()}; }
  void set(const std::vector<double>& values) { values_.assign(values.begin(), values.end()); }

 private:
  size_t window_;
  std::deque<double> values_;
};

// Index of the lowest loss, the first of equals. NaN counts as infinity: a worker that diverged never leads
// one that did not. Requires: losses are not empty.
int best_leader(const std::vector<double>& losses);

// Index i with probability exp(-loss_i) / sum_j exp(-loss_j), drawn by `uniform` in [0, 1).
int stochastic_leader(const std::vector<double>& losses, double uniform);

// A number in [0, 1) that depends on `seed` and `step` only: so draws need no state, and workers that skip a
// draw stay in step with the others.
double uniform_at(uint64_t seed, int64_t step);

}  // namespace entrain::optim
