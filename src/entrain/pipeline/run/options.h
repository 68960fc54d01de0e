// A pipeline and how its engine runs it.
#pragma once

#include <cstdint>

#include "entrain/pipeline/plan/pipeline.h"

namespace entrain::pipeline {

// `balance` has as many cells as devices * chunks. `cells` is decided: whoever makes an engine has chosen it.
struct Options : Pipeline {
  uint64_t seed = 0;
  double loss_scale = 1;         // of what backward starts from, not of the loss that is returned
  bool defer_batch_norm = true;  // running statistics move once a mini-batch
  int threads_per_cell = 0;  // of torch's own, inside an operation; 0: those that torch has here, shared out
};

}  // namespace entrain::pipeline
