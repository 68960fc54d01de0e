// What ranking well means: pairs in the right order.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace entrain::simulator {

// Share of the pairs of one domain that scores (lower is better) order as the measured seconds do. Equal
// scores count half. Pairs whose seconds differ by less than `margin` of the larger, or not at all, say
// nothing and are left out. nan when no pair is left. Requires: equal sizes.
double pair_accuracy(std::span<const double> scores, std::span<const double> seconds, double margin = 0);

// Indices 0..n-1 shuffled by `seed` and cut 70/15/15. With few, training gets the most: each of the others
// has round(0.15 n).
struct Split {
  std::vector<int> training, validation, test;
};
Split split(int n, uint64_t seed);

struct MeanStd {
  double mean = 0, std = 0;  // std of a sample: over n - 1; 0 when there is one
};
MeanStd mean_std(std::span<const double> values);

// Pairwise logistic loss and its derivative, of the difference d = score of the slower - of the faster:
//   loss = log(1 + exp(-d)),   -d loss / d d = 1 / (1 + exp(d))
double pair_loss(double difference);
double pair_gradient(double difference);

}  // namespace entrain::simulator
