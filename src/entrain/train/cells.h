// Training through cells: `entrain train --shape ...`, `--pipeline K --micro-batches M`.
#pragma once

#include "entrain/layers/layer.h"
#include "entrain/train/train.h"

namespace entrain::train {

enum class Way {
  kWhole,    // each rank that trains has the whole model and its share of the examples (train.cc)
  kThreads,  // the same, but it runs as a pipeline of threads, or in several micro-batches
  kRanks,    // a shape: ranks have cells of the model
};

// What the options ask for in this job. Throws InputError for what contradicts itself.
Way way_of(const job::Context& context, const TrainOptions& options);

// Whether any shape can run the model: it is a sequence of layers, none of which keeps statistics that must
// be on one rank.
bool can_be_cut(const layers::Sequence& sequence);

// Collective, as train(), over the ranks that train. Requires: way_of() is not kWhole.
TrainReport train_through_cells(job::Context& context, const TrainOptions& options);

}  // namespace entrain::train
