// Which layers go into which cell of a job's pipeline.
#pragma once

#include <vector>

#include "entrain/job/context.h"
#include "entrain/layers/layer.h"
#include "entrain/models/model.h"
#include "entrain/strategy/pipeline.h"

namespace entrain::parallel {

// Layers a cell: what the user said, else what rank 0 finds by timing each layer for a moment (the same on
// every rank). `batch`: one mini-batch. Collective. Throws InputError naming the balance, or more cells than
// layers.
std::vector<int> agree_on_balance(job::Context& context, const strategy::Pipeline& wanted,
                                  const layers::Sequence& sequence, const models::Batch& batch);

}  // namespace entrain::parallel
