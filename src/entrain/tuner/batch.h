// A few of many candidates: good ones, and unlike each other, so that each trial teaches something.
#pragma once

#include <vector>

#include "entrain/tuner/embedding.h"

namespace entrain::tuner {

struct BatchOptions {
  int size = 4;
  double similarity_weight = 0.5;
  // The k-th pick is judged by mean - k * optimism * deviation: the first is the one believed best, later
  // ones may be those of which little is known.
  double optimism = 0.5;
};

struct Scored {
  double mean;  // lower is better, in any unit
  double deviation;
  const Vector* embedding;
};

// Greedy: each time the candidate with the least (score - best) / spread + weight * (largest similarity to
// one picked before), the spread being that of the better half. Returns indices, the first pick first.
std::vector<int> pick_batch(const std::vector<Scored>& candidates, const BatchOptions& options);

}  // namespace entrain::tuner
