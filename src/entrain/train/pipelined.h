// Training through a pipeline: `entrain train --pipeline K --micro-batches M`.
#pragma once

#include "entrain/train/train.h"

namespace entrain::train {

// Cells are threads of a rank, or ranks: K consecutive ranks are one pipeline, and rank r's cell is
// synchronized with those of ranks r + K, r + 2K, ... by the strategy. Collective, as train().
TrainReport train_pipelined(job::Context& context, const TrainOptions& options);

}  // namespace entrain::train
