// The settings that every rank of a training job must have been given alike. The launcher gives all ranks the
// same command; ranks that a person or a scheduler starts may get different ones, and would train on
// silently.
#pragma once

#include <string>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/train/train.h"

namespace entrain::train {

struct Setting {
  std::string name;      // the field's: "optimizer.learning_rate"
  std::string value;     // as text
  bool of_file = false;  // what is in a file, which a rank that only serves need not have
};

// All that decides the update, or which calls the ranks make together:
//   model, compute, strategy, optimizer.*, pipeline.*, shape, reshapes, switches, data, batch_size,
//   global_batch, seed, steps, seconds, test_every, bn_recompute, checkpoint_every, on_nonfinite, init, the
//   workers' ranks and hosts; and whether there are out, resume, save or save_model.
// Files count by their size, beginning and end, wherever they are. Not among them, so each rank may have its
// own: the paths of all files and folders, device, trace, progress, overlap_forward, the advisor (rank 0's).
// Folders of examples are not looked into.
std::vector<Setting> deciding_settings(const job::Context& context, const TrainOptions& options);

// Collective over all ranks, servers too. Throws InputError on every rank when they differ anywhere: it names
// the field, its value there and on rank 0, and the rank.
void agree_on_settings(job::Context& context, const TrainOptions& options);

}  // namespace entrain::train
