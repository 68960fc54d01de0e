// Which device a rank computes on.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/sync/device_sum.h"

namespace entrain::parallel {

// `name`: "cpu", or "cuda": the ranks of a host take its GPUs in turn, one each where there are enough. Says
// so where some share one. Throws InputError for a GPU that libtorch does not see.
torch::Device device_of(const job::Context& context, const std::string& name);

// The GPUs of a pipeline of `devices` cells that are threads of this rank: in turn, from device_of()'s on.
std::vector<torch::Device> gpus_of(const job::Context& context, int devices);

// NCCL, when every worker computes on a GPU of its own; else null: gradients go through host memory, and rank
// 0 says why. Collective over the workers. ENTRAIN_NCCL=0: never.
std::unique_ptr<sync::DeviceSum> device_sum_of(job::Context& context, torch::Device device);

}  // namespace entrain::parallel
