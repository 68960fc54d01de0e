// Which layers go into which cell of a job's pipeline.
#pragma once

#include <vector>

#include "entrain/job/context.h"
#include "entrain/layers/layer.h"
#include "entrain/parallel/cell_training.h"
#include "entrain/pipeline/plan/pipeline.h"
#include "entrain/strategy/shape.h"

namespace entrain::parallel {

// Layers per cell: what the user said, else what rank 0 finds by timing each layer for a moment on
// `micro_batch` of the examples (the same on every rank). Collective. Throws InputError naming the balance,
// or more cells than layers.
std::vector<int> agree_on_balance(job::Context& context, const strategy::Pipeline& wanted,
                                  const layers::Sequence& sequence, const Examples& examples,
                                  int64_t micro_batch);

}  // namespace entrain::parallel
