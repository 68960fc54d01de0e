// Training through cells: `entrain train --shape ...`, `--pipeline K --micro-batches M`.
#pragma once

#include "entrain/train/train.h"

namespace entrain::train {

enum class Way {
  kWhole,    // each rank that trains has the whole model and its share of the examples (train.cc)
  kThreads,  // the same, but it runs as a pipeline of threads, or in several micro-batches
  kRanks,    // a shape: ranks have cells of the model
};

// What the options ask for in this job. Throws InputError for what contradicts itself.
Way way_of(const job::Context& context, const TrainOptions& options);

// Collective, as train(), over the ranks that train. Requires: way_of() is not kWhole.
TrainReport train_through_cells(job::Context& context, const TrainOptions& options);

}  // namespace entrain::train
