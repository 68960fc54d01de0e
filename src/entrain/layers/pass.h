// One pass of one micro-batch through one layer. What a layer may have to know about it is kept by thread.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace entrain::layers {

// Where a pass is: its random numbers are a function of this alone, whichever cell, schedule or engine runs
// it.
struct PassId {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t layer = 0;
  int64_t micro_batch = 0;

  uint64_t random_seed() const;
};

// While it lives, this thread runs the forward of that pass: drop() draws from the pass's own generator,
// and batch norm knows a recomputation. Passes do not nest.
class Pass {
 public:
  explicit Pass(const PassId& id, bool recomputing = false);
  ~Pass();
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
};

// True within a Pass that repeats a forward for its activations.
bool recomputing();

// As torch::dropout; within a Pass from its generator, so that cells that are threads need not take turns at
// torch's one generator, and a recomputation draws the same.
torch::Tensor drop(const torch::Tensor& x, double p, bool training);

}  // namespace entrain::layers
