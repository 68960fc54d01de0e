// Floating point operations of a torch operation, from the shapes of its inputs.
#pragma once

#include <ATen/record_function.h>

#include <functional>

#include "entrain/graph/op_watch.h"

namespace entrain::graph {

// Multiplications plus additions of `op` in forward: products of matrices, convolutions, recurrent layers and
// attention. 0 for everything else (elementwise operations and lookups are bound by memory, not arithmetic).
double forward_flops(const at::RecordFunction& op);

// Calls `add(flops)` for each operation of this thread's forward passes that counts, once: a product made
// inside a counted operation is part of it. Requires, threads: as OpWatch.
class FlopWatch {
 public:
  explicit FlopWatch(std::function<void(double)> add);
  void check() const { watch_.check(); }

 private:
  std::function<void(double)> add_;
  int depth_ = 0;  // of operations inside the counted one
  OpWatch watch_;
};

}  // namespace entrain::graph
