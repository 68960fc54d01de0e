// Runs a strategy for real, or tells what it would have been. trials/ implements it with a standing job.
#pragma once

#include <string>
#include <vector>

#include "entrain/dataset/dataset.h"
#include "entrain/strategy/strategy.h"

namespace entrain::tuner {

struct Measured {
  std::vector<double> seconds;  // of each step that counts; warm-up left out
  dataset::Status status = dataset::Status::kOk;
  std::string error;
};

class TrialRunner {
 public:
  virtual ~TrialRunner() = default;
  // Returns within about `deadline_s`, with status kDeadline when it was too short. Throws PeerError when the
  // job itself is broken and no further trial can run; any other exception counts as a failed trial.
  virtual Measured run(const strategy::Strategy& strategy, double deadline_s) = 0;
};

}  // namespace entrain::tuner
