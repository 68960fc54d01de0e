#include "entrain/simulator/analytic/shaped_simulation.h"

#include "entrain/simulator/analytic/shaped_update.h"

namespace entrain::simulator {

ShapedSimulation::ShapedSimulation(const graph::Graph& graph, const cluster::Cluster& cluster,
                                   const Calibration& calibration, const Network& network,
                                   const std::vector<double>& update, int64_t examples, int exact_ranks)
    : model_(new ShapedModel{{graph, cluster, calibration.compute_scale, update, examples},
                             calibration,
                             {graph, cluster, exact_ranks},
                             Routes(graph, exact_ranks),
                             network}) {}

ShapedSimulation::~ShapedSimulation() = default;

Estimate ShapedSimulation::estimate(const strategy::Strategy& strategy) const {
  thread_local ShapedUpdate update;
  update.run(*model_, strategy, false);
  return update.summary();
}

SimulatedIteration ShapedSimulation::simulate(const strategy::Strategy& strategy) const {
  ShapedUpdate update;
  update.run(*model_, strategy, true);
  return update.story();
}

}  // namespace entrain::simulator
