// What `entrain train` says before and after a run: how many steps epochs are, whether the strategy was tuned
// for this very job, and where results are.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "entrain/job/context.h"
#include "entrain/train/train.h"

namespace entrain::app {

// Steps of `epochs` passes through options.data: epochs x examples / examples per update. Reads the data.
// Throws InputError when there is none.
int64_t steps_of_epochs(double epochs, const job::Context& context, const train::TrainOptions& options);

// Throws InputError unless the job reads examples from files: made-up ones have no end.
void check_epochs(double epochs, const train::TrainOptions& options);

// Warns when the strategy is a file that was tuned for another model, batch size or cluster.
void warn_of_another_job(const train::TrainOptions& options, const cluster::Cluster& cluster);

// Warns when the job ends before its workers have exchanged anything.
void warn_of_no_exchange(const train::TrainOptions& options);

// What was written where, and what to do next; empty: nothing was written. One line each, indented.
std::string written(const train::TrainOptions& options, bool interrupted);

}  // namespace entrain::app
