// Drawing at random. Not the standard's distributions: their draws differ from library to library, and the
// same seed must give the same strategies everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace entrain::strategy {

using Rng = std::mt19937_64;

namespace sampling {

// 0 to n - 1. Requires: n > 0. (The bias of the remainder is n / 2^64.)
inline int64_t below(Rng& rng, int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); }

// low to high, both included.
inline int64_t between(Rng& rng, int64_t low, int64_t high) { return low + below(rng, high - low + 1); }

// [0, 1)
inline double unit(Rng& rng) { return static_cast<double>(rng() >> 11) * 0x1p-53; }

inline bool chance(Rng& rng, double probability) { return unit(rng) < probability; }

// Requires: not empty.
template <typename Container>
const auto& pick(Rng& rng, const Container& from) {
  return from[static_cast<size_t>(below(rng, static_cast<int64_t>(std::size(from))))];
}

// Fisher and Yates.
template <typename T>
void shuffle(Rng& rng, std::vector<T>& items) {
  for (size_t i = items.size(); i > 1; --i) {
    std::swap(items[i - 1], items[static_cast<size_t>(below(rng, static_cast<int64_t>(i)))]);
  }
}

// An index, with probability weights[i] / sum. Requires: some weight above 0.
inline int pick_weighted(Rng& rng, const std::vector<double>& weights) {
  double sum = 0;
  for (const double w : weights) sum += w;
  double left = unit(rng) * sum;
  int last = 0;  // rounding may leave a rest: the last that has a weight
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = static_cast<int>(i);
    left -= weights[i];
    if (left < 0) break;
  }
  return last;
}

}  // namespace sampling
}  // namespace entrain::strategy
