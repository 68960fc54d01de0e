// Peak memory of each rank under a shape, predicted; and whether the hosts have it.
//
//   weights      bytes of the variables that its layers read; rank 0 keeps those of the whole model
//   gradients    as many for dense variables; the rows of a step for sparse ones
//   optimizer    as many as weights for each slot (0 SGD, 1 momentum, 2 Adam), of what it holds
//   activations  counted along its passes, as pipeline/plan/memory.h does: a forward keeps what backward
//   needs
//                (kept_bytes), or, where it is recomputed, only what comes into the cell: the flow and skips.
//                Its backward first keeps all again, then frees it.
//
// Not counted: mail on its way, what the engine holds of messages, allocators; on rank 0 the optimizer's
// slots of the whole model while a checkpoint is gathered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/pipeline/plan/schedule.h"
#include "entrain/plan/assignment.h"
#include "entrain/strategy/shape.h"

namespace entrain::plan {

struct RankMemory {
  int64_t weights = 0, gradients = 0, optimizer = 0, activations = 0;  // bytes
  int64_t total() const { return weights + gradients + optimizer + activations; }
};

// By rank, `world` of them. Requires: `assignment` and `passes` are those of `shape`, which fits `graph`.
std::vector<RankMemory> memory_by_rank(const strategy::Shape& shape, const graph::Graph& graph,
                                       const Assignment& assignment,
                                       const std::vector<std::vector<pipeline::Pass>>& passes,
                                       int optimizer_slots, int world);

// Empty if every host whose memory is known has what its ranks need together. Else one line about the one
// that lacks most: "host 10.0.0.2 needs 9.3 GiB for rank 1, available: 8 GiB".
// Requires: validate(shape, ...) passed with these examples per update.
std::string missing_memory(const strategy::Shape& shape, const graph::Graph& graph,
                           const cluster::Cluster& cluster, int64_t examples, int optimizer_slots);

}  // namespace entrain::plan
