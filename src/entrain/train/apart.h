// Training apart: the loop around a distributed optimizer (optim/). Each worker steps on its own parameters.
//
// Files in `out`:
//   worker-K.jsonl      one line per step: step, wall_s, loss, communication_s, exchanges, bytes_sent
//   tests.jsonl         one line per test: step, wall_s, loss, error, training_loss, to_average, to_leader
//                       (lists by worker; LSGD's leader is that of the worker's group, as it was last
//                       received)
//   leaders.jsonl       one line per exchange of LSGD: step, local, global (ranks)
//   worker-K/           worker K's checkpoints; those of one number belong together (common_saves.h)
//   tensorboard/        the same as event files (K: the worker)
//   strategy.json       the optimizer's settings, so that `--strategy strategy.json` is the job again
// wall_s counts training only: tests stop the clock (not under asynchronous rules, where the others go on).
#pragma once

#include "entrain/train/train.h"

namespace entrain::train {

// The workers' ranks by group, as settings.groups says. Throws InputError for more groups than workers.
std::vector<std::vector<int>> make_groups(const std::string& groups, const cluster::Cluster& cluster);

// Collective over all ranks, servers too. The report is filled on rank 0.
TrainReport train_apart(job::Context& context, const TrainOptions& options);

}  // namespace entrain::train
