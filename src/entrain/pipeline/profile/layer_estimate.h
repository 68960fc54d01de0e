// Costs of layers, worked out from shapes: nothing is computed, nothing takes memory.
#pragma once

#include <torch/torch.h>

#include "entrain/layers/layer.h"
#include "entrain/pipeline/profile/layer_costs.h"

namespace entrain::pipeline {

// For layers and tensors on torch's meta device (models/blueprint.h). Time is FLOPs / `flops_per_s`,
// backward's twice forward's: operations that are bound by memory count nothing. internal_bytes are those
// that saved_tensors.h tells. InputError as describe_layers.
SequenceCosts estimate_layers(const layers::Sequence& sequence, const torch::Tensor& input,
                              const torch::Tensor& target, double flops_per_s);

// Of this machine, in products of matrices: takes a fifth of a second.
double measure_flops_per_s();

}  // namespace entrain::pipeline
