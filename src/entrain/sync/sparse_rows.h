// Rows of a sparse gradient (an embedding's), as they travel: never densified.
#pragma once

#include <torch/types.h>

#include <vector>

#include "entrain/graph/graph.h"
#include "entrain/transport/transport.h"

namespace entrain::sync {

// indices[n] (int64, ascending, each once) and values[n, ...].
struct Rows {
  torch::Tensor indices;
  torch::Tensor values;

  int64_t count() const { return indices.defined() ? indices.size(0) : 0; }
};

// Rows [begin, end) of a sparse gradient.
Rows select_rows(const torch::Tensor& gradient, int64_t begin, int64_t end);

// Sums rows with the same index; the order of `parts` fixes the order of the sums.
Rows merge_rows(const std::vector<Rows>& parts, const graph::Variable& variable);

// Rows of disjoint ascending ranges as one sparse gradient.
torch::Tensor to_gradient(const std::vector<Rows>& parts, const graph::Variable& variable);

// On the wire: all indices, then all values; the count follows from the size.
std::vector<transport::ConstBytes> wire_form(const Rows& rows);
// Copies. Throws Error naming the variable when the bytes cannot be rows of it.
Rows from_wire(transport::ConstBytes bytes, const graph::Variable& variable);

}  // namespace entrain::sync
