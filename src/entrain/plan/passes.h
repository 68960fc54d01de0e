// The passes of a step: for each rank the forwards and backwards it runs, in order.
//
// Where every micro-batch goes through a row of ranks of its own (today's pipelines and their replicas, data
// parallelism), each row runs the schedule's own pattern (pipeline/plan/schedule.h). Other shapes are list
// scheduled in whole slots, a forward lasting one and a backward two: a rank that is free takes the best pass
// that is ready.
//
//   gpipe   forwards first, then backwards, last micro-batch first
//   else    backwards first; a forward only while fewer micro-batches than
//             ceil(sum over cells c' >= c of R(c') / R(c))
//           are in flight in this replica of cell c (R: replicas); of several, that of the deepest cell
//
// No order deadlocks: the slots are a linear extension of what passes need and of every rank's order, and
// sends never block, so the earliest pass that has not run can always run.
#pragma once

#include <string>
#include <vector>

#include "entrain/pipeline/plan/schedule.h"
#include "entrain/plan/assignment.h"

namespace entrain::plan {

// By rank, up to the highest that holds anything. Requires: `assignment` is that of `shape`.
std::vector<std::vector<pipeline::Pass>> make_passes(const strategy::Shape& shape,
                                                     const Assignment& assignment);

// A line per rank: "rank 0 | F0 F1 B0 ...", F2/1 being the forward of micro-batch 2 through cell 1; a
// recomputed backward is written R.
std::string draw(const std::vector<std::vector<pipeline::Pass>>& passes);

}  // namespace entrain::plan
