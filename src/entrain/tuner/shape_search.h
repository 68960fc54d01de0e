// Shapes for a tune: planned, priced by the event simulation as the trials so far have calibrated it, and
// improved by local search with that simulation as judge.
//
//   trials ─▶ calibrate ─▶ plan_shapes (planner/planner.h) ─▶ price, each with its best builder
//                                 └▶ improve (planner/improve.h) ─▶ the fastest that were not tried
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "entrain/simulator/simulator.h"
#include "entrain/tuner/shape_pricer.h"
#include "entrain/tuner/shape_source.h"

namespace entrain::tuner {

struct ShapeSearchOptions {
  PricerOptions pricer;
  simulator::Calibration start;  // before any trial; its `cores` stay
  int batch = 4;                 // strategies per ask()
  int planned = 40;              // of the planner's candidates that are simulated
  int evaluations = 600;         // shapes that the local search simulates, per ask()
  int pipelines = 2;             // plain pipelines among the rivals: the fastest by simulation
};

// What is proposed follows from the seed and the trials told. `graph`, whose layers have times, and
// `cluster` outlive it. Throws InputError for a graph without.
class ShapeSearch final : public ShapeSource {
 public:
  ShapeSearch(const graph::Graph& graph, const cluster::Cluster& cluster, const ShapeSearchOptions& options);

  std::vector<Proposal> rivals() override;
  // None: nothing that was not tried is simulated to be faster than the best so far, by what the
  // simulation's errors were.
  std::vector<Proposal> ask(const std::vector<dataset::Trial>& trials) override;

 private:
  simulator::Calibration calibrated(const std::vector<dataset::Trial>& trials) const;
  std::vector<strategy::Shape> starts(const ShapePricer& pricer,
                                      const std::vector<dataset::Trial>& trials) const;

  const graph::Graph& graph_;
  const cluster::Cluster& cluster_;
  ShapeSearchOptions options_;
};

// Of a tune of this domain. `cores`: that emulated hosts share. `mixes_examples`: the model does (batch
// norm), so that all shapes keep its micro-batches.
ShapeSearchOptions shape_options(const dataset::Domain& domain, int cores, bool mixes_examples);

// What a tune of this domain tries. Null: G's layers have no times, or one rank trains. `domain` outlives it.
std::unique_ptr<ShapeSource> shapes_for(const dataset::Domain& domain, const ShapeSearchOptions& options);
inline std::unique_ptr<ShapeSource> shapes_for(const dataset::Domain& domain, int cores,
                                               bool mixes_examples) {
  return shapes_for(domain, shape_options(domain, cores, mixes_examples));
}

// Of `domain`: what all ranks compute together at most, in ranks of speed 1; 0: each has its own cores.
double shared_cores(const dataset::Domain& domain, int cores);

}  // namespace entrain::tuner
