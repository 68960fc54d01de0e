// Messages, variables and their slices: who is in which, and as tensors and bytes.
#pragma once

#include <torch/types.h>

#include "entrain/plan/plan.h"
#include "entrain/transport/transport.h"

namespace entrain::sync {

// By message: its variables, each once.
inline std::vector<std::vector<size_t>> variables_by_message(const plan::Plan& plan) {
  std::vector<std::vector<size_t>> variables(plan.messages.size());
  for (size_t v = 0; v < plan.messages_of.size(); ++v) {
    for (const int m : plan.messages_of[v]) variables[m].push_back(v);
  }
  return variables;
}

// By message: how many of them.
inline std::vector<int> counts_of(const std::vector<std::vector<size_t>>& variables) {
  std::vector<int> counts;
  for (const auto& each : variables) counts.push_back(static_cast<int>(each.size()));
  return counts;
}

// Requires: contiguous.
inline transport::Bytes bytes_of(const torch::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// A view; not always contiguous.
inline torch::Tensor narrowed(const torch::Tensor& gradient, const plan::Slice& slice) {
  return gradient.dim() == 0 ? gradient : gradient.narrow(slice.axis, slice.begin, slice.end - slice.begin);
}

}  // namespace entrain::sync
