// What `train --strategy auto` sets up on the ranks of its job.
#pragma once

#include <memory>

#include "entrain/train/train.h"
#include "entrain/trials/online_tuner.h"

namespace entrain::app {

// Whether it can search which ranks hold which layers, too; if not, rank 0 says why. The same on every rank
// that trains. `switches`: strategies to switch to were given.
bool searches_shapes(const train::TrainOptions& options, bool switches, const job::Context& context);

// For rank 0. Logs its trials where the job writes its results.
std::unique_ptr<trials::OnlineTuner> make_online_tuner(const train::TrainOptions& options,
                                                       const cluster::Cluster& cluster);

}  // namespace entrain::app
