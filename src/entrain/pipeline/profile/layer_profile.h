// Costs of layers, measured by running them.
#pragma once

#include <torch/torch.h>

#include "entrain/layers/layer.h"
#include "entrain/pipeline/profile/layer_costs.h"

namespace entrain::pipeline {

struct MeasureOptions {
  int repeats = 5;      // the least of each layer counts; at least one is made
  double budget_s = 5;  // no further repeat starts after this
  uint64_t seed = 0;    // of the random numbers that layers draw
};

// Runs the layers on `input` and `target`, one micro-batch on the CPU: once in a row for memory and FLOPs,
// then each apart, as a cell of its own, for time.
//
// Leaves parameters, gradients and buffers as it found them; torch's default generator may have advanced.
// Requires: no other thread makes tensors meanwhile. InputError as describe_layers.
SequenceCosts measure_layers(const layers::Sequence& sequence, const torch::Tensor& input,
                             const torch::Tensor& target, const MeasureOptions& options = {});

}  // namespace entrain::pipeline
