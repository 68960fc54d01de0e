// What one cell costs for one micro-batch: what timeline.h and memory.h predict from.
#pragma once

#include <cstdint>

namespace entrain::pipeline {

struct CellCost {
  double forward_s = 0;  // at speed 1
  double backward_s = 0;
  double recompute_s = 0;  // forward again, inside backward, where rematerialized
  int64_t parameter_bytes = 0;
  int64_t boundary_bytes = 0;  // the output sent on; its gradient comes back with the same size
  int64_t input_bytes = 0;     // what is kept of a rematerialized micro-batch
  int64_t internal_bytes = 0;  // what is kept of any other; input included where autograd holds it
};

}  // namespace entrain::pipeline
