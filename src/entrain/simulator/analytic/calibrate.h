// Finds a cluster's Calibration from a few measured runs.
#pragma once

#include <vector>

#include "entrain/dataset/dataset.h"
#include "entrain/simulator/simulator.h"

namespace entrain::simulator {

// The calibration whose event simulation comes nearest to the measured medians: coordinate descent in
// log space on
//   sum over runs of log(simulated / measured)^2  +  a pull to the start, so that few runs decide little
// Two or three runs of different kind (a server's, a ring's, many parts) are enough. Runs that failed are
// left out. Deterministic.
Calibration calibrate(const graph::Graph& graph, const cluster::Cluster& cluster,
                      const std::vector<const dataset::Trial*>& runs, const Calibration& start = {});

// Of a recorded domain, by the runs below, as its program cut messages then.
Calibration calibrate(const dataset::Domain& domain);

// The runs a calibration takes by default: the builders allreduce, ps and byteps, as far as `trials` has
// them.
std::vector<const dataset::Trial*> calibration_runs(const std::vector<dataset::Trial>& trials);

}  // namespace entrain::simulator
