#include "entrain/optim/leader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace entrain::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> without_nan(std::vector<double> losses) {
  for (double& loss : losses) {
    if (std::isnan(loss)) loss = kInfinity;
  }
  return losses;
}

// The finalizer of splitmix64: every bit of the input moves every bit of the output.
uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

void LossWindow::add(double loss) {
  values_.push_back(loss);
  if (values_.size() > window_) values_.pop_front();
}

double LossWindow::mean() const {
  if (values_.empty()) return kInfinity;
  return std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());
}

int best_leader(const std::vector<double>& losses) {
  const std::vector<double> clean = without_nan(losses);
  return static_cast<int>(std::min_element(clean.begin(), clean.end()) - clean.begin());
}

int stochastic_leader(const std::vector<double>& losses, double uniform) {
  const std::vector<double> clean = without_nan(losses);
  const int best = best_leader(clean);
  const double lowest = clean[best];
  if (!std::isfinite(lowest)) return best;  // all have diverged: the odds are undefined
  double sum = 0;
  for (const double loss : clean) sum += std::exp(lowest - loss);  // shifted: the largest weight is 1
  double left = uniform * sum;
  for (size_t i = 0; i < clean.size(); ++i) {
    left -= std::exp(lowest - clean[i]);
    if (left < 0) return static_cast<int>(i);
  }
  return best;  // rounding ate the last weight
}

double uniform_at(uint64_t seed, int64_t step) {
  return std::ldexp(static_cast<double>(mix(mix(seed) ^ static_cast<uint64_t>(step)) >> 11), -53);
}

}  // namespace entrain::optim
