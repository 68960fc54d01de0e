// G's layers: which variables each reads, what its passes take at several sizes, what flows and is kept.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "entrain/graph/graph.h"
#include "entrain/layers/layer.h"
#include "entrain/pipeline/profile/layer_profile.h"

namespace entrain::pipeline {

// Examples at once that a profile of `batch` is taken at: one, some, all.
std::vector<int64_t> profiled_sizes(int64_t batch);

// Fills `graph`'s layers, skips and input_bytes. `graph`: of `module`, whose variables have the parameters'
// names; `input` and `target`: as many examples as the largest of `sizes`. As measure_layers(), for each
// size.
void add_layers(graph::Graph& graph, const torch::nn::Module& module, const layers::Sequence& sequence,
                const torch::Tensor& input, const torch::Tensor& target, const std::vector<int64_t>& sizes,
                const MeasureOptions& options = {});

}  // namespace entrain::pipeline
