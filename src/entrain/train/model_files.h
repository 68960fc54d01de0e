// What every training job starts from and leaves behind, and whether it is tested.
#pragma once

#include <memory>

#include "entrain/checkpoint/checkpoint.h"
#include "entrain/data/data.h"
#include "entrain/models/model.h"
#include "entrain/train/train.h"

namespace entrain::train {

// The model of options.model, with the parameters and buffers of options.init if there is one; or what
// replays options.replay at the speed of this rank's host. On the CPU. Throws InputError (see
// models::make_model, load_state_dict and trials::ReplayedModel).
std::shared_ptr<models::Model> initial_model(const job::Context& context, const TrainOptions& options);

// Throws InputError where the checkpoint is of another model, or of a job that drew other examples.
void check_resumed(const checkpoint::CheckpointInfo& info, const TrainOptions& options);

// Writes options.save and options.save_model, where given. Call it on rank 0.
void save_results(const models::Model& model, const TrainOptions& options);

// Whether the job tests: it was asked to, or there are held-out examples. Throws InputError when it was asked
// to and there are none.
bool is_tested(const TrainOptions& options, const data::Data& data);

}  // namespace entrain::train
