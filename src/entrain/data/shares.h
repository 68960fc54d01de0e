// Which examples an update sees: each epoch is a shuffle that all workers agree on, cut into updates.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace entrain::data {

// Requires: examples >= per_update.
class Shares {
 public:
  Shares(int64_t examples, int64_t per_update, uint64_t seed);

  int64_t steps_per_epoch() const { return steps_; }
  // Indices of the examples [begin, begin + count) of the update at `step`, on the CPU.
  torch::Tensor at(int64_t step, int64_t begin, int64_t count);

 private:
  int64_t examples_, per_update_, steps_;
  uint64_t seed_;
  int64_t epoch_ = -1;  // that order_ is of
  torch::Tensor order_;
};

}  // namespace entrain::data
