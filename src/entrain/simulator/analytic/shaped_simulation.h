// One update of a job of any shape, as parallel/shaped runs it: blocks of computing, parcels and messages.
//
//   rank 0   U F0 F1 ... R0 B0 |g B1 ─┐                    blocks, parcels: shape_blocks.h
//   rank 1   U ...                    ├─ the loss is       |g: a message sets out at a rank that has its own
//   messages              g ──────────┘  summed; next U       gradients; network.h
//
// Activations travel with priority 0, gradients with that of their messages, on the same streams.
//
//   seconds = max(end of all ranks' blocks, end of all messages) + sum of the loss
//   sum of the loss, W workers, a star = 2 latency_s + 2 (W - 1) message_s; 0 for one worker
//
// As every rank waits for that sum, all queues are empty there: from one sum to the next is the steady state,
// and the update of a step is the beginning of the next. Not counted: batch norm's statistics, clipping.
//
// Hosts of lab: and local: clusters share Calibration::cores (shared_cores.h).
//
// Sums of more than `exact_ranks` ranks are condensed to flows (collective/condensed.h): O(R) instead of
// O(R^2).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/simulator/analytic/network.h"

namespace entrain::simulator {

struct ShapedModel;

// What an update costs on this (G, D). All that it refers to outlives it.
// Thread-safe.
class ShapedSimulation {
 public:
  ShapedSimulation(const graph::Graph& graph, const cluster::Cluster& cluster, const Calibration& calibration,
                   const Network& network, const std::vector<double>& update, int64_t examples,
                   int exact_ranks);
  ~ShapedSimulation();

  // Requires: strategy.shape, and validate() passed for it.
  Estimate estimate(const strategy::Strategy& strategy) const;
  SimulatedIteration simulate(const strategy::Strategy& strategy) const;

 private:
  std::unique_ptr<const ShapedModel> model_;
};

}  // namespace entrain::simulator
