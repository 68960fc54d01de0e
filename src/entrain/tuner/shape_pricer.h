// Shapes planned, priced and improved by the event simulation, each with the builder whose way to synchronize
// suits it best.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/dataset/dataset.h"
#include "entrain/graph/graph.h"
#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/strategy/strategy.h"

namespace entrain::tuner {

struct Priced {
  strategy::Strategy strategy;  // with its shape
  double seconds = 0;           // per update, simulated
};

struct PricerOptions {
  int64_t examples = 0;  // per update, of all ranks together
  uint64_t seed = 0;
  int optimizer_slots = 1;  // 0 SGD, 1 momentum, 2 Adam
  // M, where other micro-batches would change the update: those of all layers on all ranks in M of them. A
  // model that mixes the examples of a micro-batch (batch norm) needs it, and a job that draws random numbers
  // and must not depend on its shape. 0: any.
  int micro_batches = 0;
  int exact_ranks = 8;  // sums of more ranks are priced as flows: less than 2% off, much faster
  // Tried where several ranks hold the same layers. Those that cut variables into most parts are left out:
  // they cost most to price, and rarely win.
  std::vector<std::string> builders = {"allreduce", "ps", "partitioned-allreduce", "byteps"};
};

// `graph`, whose layers have times, and `cluster` outlive it. Thread-safe.
class ShapePricer {
 public:
  ShapePricer(const graph::Graph& graph, const cluster::Cluster& cluster,
              const simulator::Calibration& calibration, const PricerOptions& options);

  // Nothing: it does not fit the cluster, the examples, or the hosts' memory, or has other micro-batches.
  std::optional<Priced> price(const strategy::Shape& shape) const;
  // Those that fit, the fastest first.
  std::vector<Priced> price(const std::vector<strategy::Shape>& shapes) const;

  // In this shape, by the builder that is usually best: where it is too dear to try all.
  strategy::Strategy synchronized(const strategy::Shape& shape) const;

  // The planner's best by its closed form, about so many (planner/planner.h).
  std::vector<strategy::Shape> planned(int most) const;
  // The best that a local search finds from `starts`, with this simulation as judge of at most so many
  // shapes, best first (planner/improve.h). Requires: the starts pass validate().
  std::vector<strategy::Shape> improved(const std::vector<strategy::Shape>& starts, int evaluations,
                                        uint64_t seed) const;

  const simulator::EventSimulation& simulation() const { return simulation_; }

 private:
  const graph::Graph& graph_;
  const cluster::Cluster& cluster_;
  PricerOptions options_;
  simulator::EventSimulation simulation_;
  std::vector<strategy::Strategy> built_;            // by builder
  std::vector<std::pair<int64_t, int64_t>> ranges_;  // of the micro-batches, where they must not differ
};

// Of the trials with a shape: measured over simulated, in the median; 1: there are none. The errors of shapes
// have much in common, since all are made of the same layers and links.
double measured_over_simulated(const std::vector<dataset::Trial>& trials,
                               const simulator::EventSimulation& simulation);

}  // namespace entrain::tuner
