// What the layers of a model of the zoo cost, for the pipeline verbs.
#pragma once

#include <cstdint>
#include <string>

#include "entrain/pipeline/profile/layer_costs.h"

namespace entrain::app {

struct CostRequest {
  std::string model;
  int batch = 1;  // examples of a micro-batch; a profile that would take too long is taken with fewer
  uint64_t seed = 0;
  bool estimate = false;   // run nothing
  double flops_per_s = 0;  // of a device, for estimated times; 0: this machine's
};

struct ModelCosts : pipeline::SequenceCosts {
  int64_t parameters = 0;  // elements
  std::string why = {};    // it is estimated, when that was not asked for
};

// InputError for an unknown model, and for one that is not a sequence of layers.
ModelCosts model_costs(const CostRequest& request);

}  // namespace entrain::app
