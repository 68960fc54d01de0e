// The largest elements of a tensor, without sorting it.
#pragma once

#include <torch/types.h>

namespace entrain::sync {

// Indices (int64, ascending) of the k elements with the largest magnitude, or, for a large tensor, of about
// k: those above a threshold that a sample of the elements gives, at least one and fewer than 2 k. The whole
// tensor is read once. Requires: float32, one axis, contiguous, 1 <= k <= elements.
torch::Tensor largest(const torch::Tensor& values, int64_t k);

}  // namespace entrain::sync
