// A cluster that exists in the event simulation only: trials in microseconds, for tests and for experiments
// over many seeds.
#pragma once

#include <cstdint>

#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/tuner/trial_runner.h"

namespace entrain::tuner {

// What a step takes is, with N(s) a normal draw of deviation s:
//
//   simulated(truth) x exp(N(model_error), fixed for a strategy) x exp(N(trial_noise), for a trial)
//                    x exp(N(step_noise), for a step)
//
// where `truth` is the calibration with each number off by exp(N(calibration_error)), fixed for a cluster.
// So a tuner whose simulator has the plain calibration meets a cluster that it knows about as badly as a real
// one: without these errors its simulator would be an oracle and the search a farce.
struct SimulatedOptions {
  simulator::Calibration calibration;
  double calibration_error = 0.2;
  double model_error = 0.08;
  double trial_noise = 0.01;
  double step_noise = 0.02;
  int steps = 5;
  uint64_t seed = 0;
};

// Same seed and same order of trials, same seconds. Copies graph and cluster. Not thread-safe.
class SimulatedCluster final : public TrialRunner {
 public:
  SimulatedCluster(const graph::Graph& graph, const cluster::Cluster& cluster,
                   const SimulatedOptions& options);

  // Requires: the strategy passes validate().
  Measured run(const strategy::Strategy& strategy, double deadline_s) override;

  // Without the noise of trials and steps: what many repeats would tend to.
  double truth(const strategy::Strategy& strategy) const;

 private:
  SimulatedOptions options_;
  simulator::EventSimulation simulation_;
  uint64_t trials_ = 0;
};

}  // namespace entrain::tuner
