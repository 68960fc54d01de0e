// Gradient boosting of one bag on pairs of trials; what boosted.cc repeats.
#pragma once

#include <random>
#include <vector>

#include "entrain/simulator/boosted/boosted.h"

namespace entrain::simulator {

// Trials as the booster sees them.
struct Examples {
  FeatureRows rows;
  std::vector<double> start;   // score before any tree
  std::vector<double> target;  // log seconds
  std::vector<int> lesson;     // pairs are made within one
  std::vector<double> weight;  // of its lesson

  void append(const Lesson& lesson_of, int number);
  int count() const { return static_cast<int>(target.size()); }
};

// Trees of one bag. `inside` are the rows of `examples` to learn from; `outside` and `held` (may be empty)
// decide when to stop. At most `rounds` trees.
std::vector<Tree> boost(const Examples& examples, const std::vector<int>& inside,
                        const std::vector<int>& outside, const Examples& held, int rounds,
                        const BoostedOptions& options, std::mt19937_64& rng);

}  // namespace entrain::simulator
