// Slices of gradients as tensors and as bytes.
#pragma once

#include <torch/types.h>

#include "entrain/plan/plan.h"
#include "entrain/transport/transport.h"

namespace entrain::sync {

// Requires: contiguous.
inline transport::Bytes bytes_of(const torch::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// A view; not always contiguous.
inline torch::Tensor narrowed(const torch::Tensor& gradient, const plan::Slice& slice) {
  return gradient.dim() == 0 ? gradient : gradient.narrow(slice.axis, slice.begin, slice.end - slice.begin);
}

}  // namespace entrain::sync
