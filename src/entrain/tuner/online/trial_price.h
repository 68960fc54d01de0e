// What a trial costs a job that trains, and what it may bring. Its steps are training steps, so the price is
// only what they take longer than under the best so far, and the moves of layers there and back:
//
//   cost = move there + move back + one step + trial's steps x (predicted - best)
//   gain = steps left after it x (best - max(predicted x (1 - doubt), bound))
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "entrain/dataset/dataset.h"
#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/strategy/shape.h"
#include "entrain/tuner/shape_search.h"

namespace entrain::tuner {

// Where the job stands.
struct Underway {
  strategy::Shape shape;   // under which its layers lie now
  int64_t steps_left = 0;  // of the job
};

// Thread-safe.
class TrialPrice {
 public:
  // `domain`, whose layers have times, outlives it; its trials are not looked at.
  TrialPrice(const dataset::Domain& domain, const ShapeSearchOptions& options, int steps_per_trial);

  // Why a trial of `strategy` does not pay, given those before; empty: it does. The first always does.
  std::string objection(const strategy::Strategy& strategy, const std::vector<dataset::Trial>& trials,
                        const Underway& underway) const;

  // Not even a shape as fast as any can be would be worth finding.
  bool nothing_left(const std::vector<dataset::Trial>& trials, int64_t steps_left) const;

  // Until all ranks have what they hold under `to`, parameters and what the optimizer remembers: the busiest
  // link's time.
  double move_s(const strategy::Shape& from, const strategy::Shape& to) const;

  // A strategy's own; without one: all layers on all ranks, in as many micro-batches as all others.
  strategy::Shape shape_of(const strategy::Strategy& strategy) const;

 private:
  double expected_s(const strategy::Strategy& strategy, const std::vector<dataset::Trial>& trials) const;

  const graph::Graph& graph_;
  const cluster::Cluster& cluster_;
  const int optimizer_slots_;
  const int micro_batches_;
  const int steps_per_trial_;
  const double bound_s_;
  const simulator::EventSimulation simulation_;
};

}  // namespace entrain::tuner
