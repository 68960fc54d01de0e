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
  // Steps that must be made before graph() and the first switch_strategy().
  virtual int64_t first_steps() const { return 6; }  // allocators and caches settle, then times are taken
  // From the next step on; rank 0's argument counts, but for a shape, which is the same on every rank.
  virtual void switch_strategy(const strategy::Strategy& strategy) = 0;
  // What the last step has left under way comes to its end: something else will be stepped meanwhile.
  virtual void pause() {}
  // With measured times. Rank 0's counts; others may leave times out.
  virtual graph::Graph graph() const = 0;
};

}  // namespace entrain::trials
