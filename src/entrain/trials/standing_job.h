// A job that stands ready: its ranks switch strategy between steps and measure a few, so that a trial is a
// few steps and no restart.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/trials/model_stepper.h"

namespace entrain::trials {

struct TrialMeasureOptions {
  int64_t least = 4;  // measured steps
  int64_t most = 60;
  double steady = 0.03;   // enough when (p75 - p25) / median of the steps is at most this, over sqrt(steps)
  double deadline_s = 0;  // a step that takes longer ends the trial; 0: none
};

struct Measurement {
  std::vector<double> seconds;  // of each measured step
  bool over_deadline = false;
};

// Collective over all ranks. Rank 0 measures; every other rank calls follow() (servers too).
class StandingJob {
 public:
  // G and its times are taken here: by first steps under the builder `allreduce`; or, where shapes are to
  // come, by rank 0 alone, so that slow links delay nothing.
  StandingJob(job::Context& context, const StandingOptions& options);
  // The same for anything that steps; null on a rank that only serves.
  StandingJob(job::Context& context, std::unique_ptr<Stepper> stepper);
  ~StandingJob();  // rank 0: ends the others

  // Until rank 0 ends the job. Throws PeerError when it fails.
  void follow();

  // Rank 0 only. Throws InputError for a strategy that does not fit, before anything is switched.
  Measurement measure(const strategy::Strategy& strategy, const TrialMeasureOptions& options);
  const graph::Graph& graph() const { return graph_; }

 private:
  strategy::Strategy with_shape_of(const strategy::Strategy& strategy);
  void switch_to(const strategy::Strategy& strategy);
  std::vector<double> run(int64_t steps);

  job::Context& context_;
  std::unique_ptr<Stepper> stepper_;
  graph::Graph graph_;
};

}  // namespace entrain::trials
