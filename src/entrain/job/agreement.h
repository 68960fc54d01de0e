// What all ranks of a job must hold in common, and how they come to it: rank 0 decides.
#pragma once

#include <optional>

#include "entrain/graph/capture.h"
#include "entrain/graph/graph.h"
#include "entrain/job/context.h"
#include "entrain/strategy/strategy.h"
#include "entrain/transport/transport.h"

namespace entrain::job {

// Collective over the workers: a variable's gradient is sparse if that of some worker is and none is dense,
// whichever of them the first batch of rank 0 made. Rank 0's `captured` is changed.
void agree_on_gradients(Context& context, graph::Capture& captured);

// Collective over all ranks, servers too. `own` is a worker's captured G; rank 0's is returned.
// Throws Error naming rank and variable when a worker's model differs.
graph::Graph agree_on_graph(transport::Transport& transport, const std::optional<graph::Graph>& own,
                            Deadline deadline);

// Collective over all ranks. Rank 0's argument is returned.
strategy::Strategy agree_on_strategy(transport::Transport& transport, const strategy::Strategy& own,
                                     Deadline deadline);

// Collective over the workers, each of which has a checkpoint of `step` (-1: none). Throws InputError unless
// it is rank 0's: folders that differ between hosts.
void agree_on_resumed_step(Context& context, int64_t step);

}  // namespace entrain::job
