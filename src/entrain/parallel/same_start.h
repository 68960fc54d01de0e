// All workers train the same model, and start from the same values.
#pragma once

#include "entrain/graph/capture.h"
#include "entrain/job/context.h"

namespace entrain::parallel {

// Collective over the workers. Throws Error naming rank and variable where names, types or shapes differ from
// rank 0's: ranks with different models fail by a name, not by a size.
void check_same_tensors(job::Context& context, const graph::NamedTensors& tensors);

// Collective over the workers: tensors that the last step has begun to train. They cannot be sent by rank 0
// any more: this step's forward has used them. Throws InputError naming rank and variable where values
// differ.
void check_same_values(job::Context& context, const graph::NamedTensors& tensors);

}  // namespace entrain::parallel
