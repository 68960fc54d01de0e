#include "entrain/tuner/recalibrate.h"

#include <algorithm>

#include "entrain/simulator/analytic/calibrate.h"
#include "entrain/simulator/analytic/event_simulation.h"

namespace entrain::tuner {

decltype(Guide::remake) recalibrating(const graph::Graph& graph, const cluster::Cluster& cluster,
                                      const simulator::Calibration& start, size_t most) {
  return [&graph, &cluster, start, most](const std::vector<const dataset::Trial*>& trials) {
    std::vector<const dataset::Trial*> runs = trials;
    const auto kept = static_cast<std::ptrdiff_t>(std::min(runs.size(), most / 2));
    std::stable_sort(runs.begin() + kept, runs.end(), [](const dataset::Trial* a, const dataset::Trial* b) {
      return a->step_s() < b->step_s();
    });
    runs.resize(std::min(runs.size(), most));
    const simulator::Calibration fitted = simulator::calibrate(graph, cluster, runs, start);
    return std::make_shared<const simulator::EventSimulation>(graph, cluster, fitted);
  };
}

}  // namespace entrain::tuner
