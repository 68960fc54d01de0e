// Which examples an update has, and which of them each worker computes.
#pragma once

#include "entrain/data/data.h"
#include "entrain/train/train.h"

namespace entrain::train {

// Those that compute: hogwild's threads, else the ranks that train.
int workers_of(const job::Context& context, const TrainOptions& options);

// Of all `workers` together: the job's, whatever the shape.
int64_t examples_per_update(const TrainOptions& options, int workers);

// Those that one of `workers` equal ones computes where each trains by itself. Throws InputError where they
// cannot have equally many.
int64_t examples_per_worker(const TrainOptions& options, int workers);

// The data of such a job.
data::DataOptions data_options(const TrainOptions& options, int workers, torch::Device device);

}  // namespace entrain::train
