// The state of a pipeline whose cells are ranks: each rank has its part, rank 0 needs all of it to save.
#pragma once

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/pipeline/run/rank_pipeline.h"

namespace entrain::parallel {

// `parameters` of `module` with their names there. Throws Error for one that is not the module's.
std::vector<std::pair<std::string, torch::Tensor>> named(const torch::nn::Module& module,
                                                         const std::vector<torch::Tensor>& parameters);

// Gives back the memory of all other parameters and buffers: they are other ranks'.
void keep_only(torch::nn::Module& module, const std::vector<torch::Tensor>& parameters,
               const std::vector<torch::Tensor>& buffers);

// Brings the parameters, buffers and optimizer state of every rank of rank 0's pipeline into rank 0's model
// and optimizer. Collective over that pipeline; other ranks return at once.
void gather_model(job::Context& context, const std::vector<int>& ranks, const pipeline::RankPipeline& engine,
                  torch::nn::Module& module, torch::optim::Optimizer& optimizer);

}  // namespace entrain::parallel
