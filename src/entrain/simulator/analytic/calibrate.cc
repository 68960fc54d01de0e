#include "entrain/simulator/analytic/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "entrain/simulator/analytic/event_simulation.h"

namespace entrain::simulator {
namespace {

// What is fitted, and how far (in log space, one standard deviation) it may be from the start before that
// costs as much as an error of kNoise in a run.
struct Parameter {
  double Calibration::*value;
  double trust;
  double least, most;
};
constexpr double kNoise = 0.05;
constexpr std::array<Parameter, 8> kParameters{{
    {&Calibration::link_efficiency, 0.08, 0.3, 1.5},
    {&Calibration::burst_s, 0.7, 1e-5, 0.05},
    {&Calibration::window_bytes, 0.7, 16e3, 4e6},
    {&Calibration::latency_s, 0.5, 5e-6, 0.1},
    {&Calibration::message_s, 0.5, 1e-6, 0.01},
    {&Calibration::engine_bytes_per_s, 0.5, 1e7, 1e12},
    {&Calibration::update_bytes_per_s, 0.7, 1e7, 1e12},
    {&Calibration::compute_scale, 0.2, 0.2, 5},
}};

class Problem {
 public:
  Problem(const graph::Graph& graph, const cluster::Cluster& cluster,
          const std::vector<const dataset::Trial*>& runs, const Calibration& start)
      : graph_(graph), cluster_(cluster), start_(start) {
    for (const auto* run : runs) {
      if (run->ok()) runs_.push_back(run);
    }
  }
  bool empty() const { return runs_.empty(); }

  double cost(const Calibration& c) const {
    const EventSimulation simulation(graph_, cluster_, c);
    double sum = 0;
    for (const auto* run : runs_) {
      const double error = std::log(simulation.estimate(run->strategy).seconds / run->step_s()) / kNoise;
      sum += error * error;
    }
    for (const Parameter& p : kParameters) {
      const double moved = std::log(c.*p.value / start_.*p.value) / p.trust;
      sum += moved * moved;
    }
    return sum;
  }

 private:
  const graph::Graph& graph_;
  const cluster::Cluster& cluster_;
  Calibration start_;
  std::vector<const dataset::Trial*> runs_;
};

}  // namespace

Calibration calibrate(const graph::Graph& graph, const cluster::Cluster& cluster,
                      const std::vector<const dataset::Trial*>& runs, const Calibration& start) {
  const Problem problem(graph, cluster, runs, start);
  Calibration best = start;
  if (problem.empty()) return best;
  double least = problem.cost(best);
  // Steps of half a standard deviation, halved when none helps.
  for (double step = 0.5; step > 0.02;) {
    bool better = false;
    for (const Parameter& p : kParameters) {
      for (const double direction : {1.0, -1.0}) {
        Calibration tried = best;
        tried.*p.value = std::clamp(tried.*p.value * std::exp(direction * step * p.trust), p.least, p.most);
        const double cost = problem.cost(tried);
        if (cost >= least) continue;
        least = cost;
        best = tried;
        better = true;
        break;
      }
    }
    if (!better) step /= 2;
  }
  return best;
}

Calibration calibrate(const dataset::Domain& domain) {
  Calibration start;
  start.least_segment = static_cast<double>(domain.settings.least_segment_bytes);
  return calibrate(domain.graph, domain.cluster, calibration_runs(domain.trials), start);
}

std::vector<const dataset::Trial*> calibration_runs(const std::vector<dataset::Trial>& trials) {
  std::vector<const dataset::Trial*> runs;
  for (const char* builder : {"allreduce", "ps", "byteps"}) {
    for (const auto& trial : trials) {
      if (!trial.ok() || trial.origin != "builder" || trial.strategy.id != builder) continue;
      runs.push_back(&trial);
      break;
    }
  }
  return runs;
}

}  // namespace entrain::simulator
