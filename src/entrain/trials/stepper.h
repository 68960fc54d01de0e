// What can be stepped under a strategy: a model that computes, or a replay of one that was profiled.
#pragma once

#include "entrain/graph/graph.h"
#include "entrain/strategy/strategy.h"

namespace entrain::trials {

// Same calls in the same order on every worker, on one thread.
class Stepper {
 public:
  virtual ~Stepper() = default;
  virtual void step() = 0;
  // From the next step on; rank 0's argument counts. Requires: one step was made.
  virtual void switch_strategy(const strategy::Strategy& strategy) = 0;
  // With measured times. Requires: two steps were made.
  virtual graph::Graph graph() const = 0;
};

}  // namespace entrain::trials
