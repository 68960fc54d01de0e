// Peak memory of each device, predicted.
//
// parameters: bytes * (1 weight + 1 gradient + optimizer slots: 0 SGD, 1 momentum, 2 Adam)
// activations: counted along the schedule. A forward stores its cell's `internal` bytes, or only its
// `input` where the micro-batch is rematerialized; the backward of such a one first stores `internal`
// again. Backward frees both at its end.
//
// In closed form, for one cell on device k ("gpipe", "1f1b"), with F micro-batches in flight
// (gpipe: M, 1f1b: min(M, K-k)), a = input, A = internal:
//   never        F*A
//   always       F*a + A                                one is being recomputed
//   except-last  gpipe: (M-1)*a + A                     the kept one is gone before the next is recomputed
//                1f1b:  the larger of F*a + A (if M > F) and (F-1)*a + A (+ A if F > 1): micro-batch M-1 is
//                       kept while the F-1 before it are recomputed
// which for F = M is GPipe's O(N + (L/K)*(N/M)).
// Not counted: what the caller's batch, the boundary buffers and the allocator hold, and what backward needs
// in passing: above all a parameter's gradient while it is added to the sum (67 MB of the 342 that a step of
// vgg16-32 takes).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "entrain/pipeline/plan/cell_cost.h"
#include "entrain/pipeline/plan/remat.h"
#include "entrain/pipeline/plan/schedule.h"

namespace entrain::pipeline {

struct DeviceMemory {
  int64_t parameter_bytes = 0;  // weights, gradients and optimizer slots
  int64_t activation_bytes = 0;

  int64_t total() const { return parameter_bytes + activation_bytes; }
};

// By device. Requires one cost a cell: otherwise InputError.
std::vector<DeviceMemory> peak_memory(const Schedule& schedule, const std::vector<CellCost>& costs,
                                      Remat remat, int optimizer_slots);

// The closed form. Requires `schedule` "gpipe" or "1f1b": otherwise InputError.
int64_t activation_formula(const std::string& schedule, int devices, int device, int micro_batches,
                           Remat remat, int64_t input_bytes, int64_t internal_bytes);

}  // namespace entrain::pipeline
