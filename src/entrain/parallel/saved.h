// The state of a data-parallel job in checkpoints: all workers hold the same, but for their random numbers.
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <optional>

#include "entrain/checkpoint/checkpoint.h"
#include "entrain/job/context.h"

namespace entrain::parallel {

// Collective over the workers: gathers their random numbers, and rank 0 writes all (see Checkpoints::save).
// `info`: but world and rng. `keep`: how many files stay.
void save_on_rank_0(job::Context& context, const std::filesystem::path& folder, int keep,
                    checkpoint::CheckpointInfo info, const torch::nn::Module& module,
                    const torch::optim::Optimizer& optimizer);

// Collective over the workers: each reads the newest checkpoint in `folder`, which must be of the same step.
// nullopt: there is none. Throws as Checkpoints::load_newest, and InputError for folders that differ.
std::optional<checkpoint::CheckpointInfo> load_everywhere(job::Context& context,
                                                          const std::filesystem::path& folder,
                                                          torch::nn::Module& module,
                                                          torch::optim::Optimizer& optimizer);

// This rank's random numbers go on as they were saved.
void restore_rng(const job::Context& context, const checkpoint::CheckpointInfo& info);

}  // namespace entrain::parallel
