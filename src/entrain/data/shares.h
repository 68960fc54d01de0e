// Who sees which example when: each epoch is a shuffle that all workers agree on, cut into their batches.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace entrain::data {

// Requires: examples >= batch_size * workers.
class Shares {
 public:
  Shares(int64_t examples, int64_t batch_size, int worker, int workers, uint64_t seed);

  int64_t steps_per_epoch() const { return steps_; }
  // Indices of the examples of this worker's batch at `step`, on the CPU.
  torch::Tensor at(int64_t step);

 private:
  int64_t examples_, batch_size_, worker_, workers_, steps_;
  uint64_t seed_;
  int64_t epoch_ = -1;  // that order_ is of
  torch::Tensor order_;
};

}  // namespace entrain::data
