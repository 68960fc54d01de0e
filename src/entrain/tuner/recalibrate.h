// The event simulation, fitted again as trials come in.
#pragma once

#include "entrain/simulator/simulator.h"
#include "entrain/tuner/search.h"

namespace entrain::tuner {

// For Guide::remake: an event simulation calibrated on the trials told, at most `most` of them: the first,
// which are builders and differ most, and the fastest, which are what the search is about. `graph` and
// `cluster` outlive it.
decltype(Guide::remake) recalibrating(const graph::Graph& graph, const cluster::Cluster& cluster,
                                      const simulator::Calibration& start = {}, size_t most = 30);

}  // namespace entrain::tuner
