#include "entrain/simulator/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace entrain::simulator {

double pair_accuracy(std::span<const double> scores, std::span<const double> seconds, double margin) {
  double right = 0, pairs = 0;
  for (size_t i = 0; i < seconds.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const double difference = seconds[i] - seconds[j];
      if (difference == 0 || std::abs(difference) < margin * std::max(seconds[i], seconds[j])) continue;
      const double said = scores[i] - scores[j];
      pairs += 1;
      right += said == 0 ? 0.5 : (said > 0) == (difference > 0) ? 1 : 0;
    }
  }
  return pairs > 0 ? right / pairs : std::numeric_limits<double>::quiet_NaN();
}

Split split(int n, uint64_t seed) {
  std::vector<int> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 rng(seed);
  // std::shuffle may differ between libraries; the same seed must mean the same split everywhere.
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng() % i]);
  const auto part = static_cast<std::ptrdiff_t>(std::lround(0.15 * n));
  const auto validation = order.end() - 2 * part, test = order.end() - part;
  return {{order.begin(), validation}, {validation, test}, {test, order.end()}};
}

MeanStd mean_std(std::span<const double> values) {
  if (values.empty()) return {};
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return {mean, n > 1 ? std::sqrt(squares / (n - 1)) : 0};
}

double pair_loss(double d) { return d > 0 ? std::log1p(std::exp(-d)) : std::log1p(std::exp(d)) - d; }

double pair_gradient(double d) { return 1 / (1 + std::exp(d)); }

}  // namespace entrain::simulator
