// Hogwild: threads of one process train one set of parameters without locks.
#pragma once

#include "entrain/train/train.h"

namespace entrain::train {

// Requires: a job of one rank; throws InputError otherwise. The job's `steps` counts each thread's.
TrainReport train_hogwild(job::Context& context, const TrainOptions& options);

}  // namespace entrain::train
