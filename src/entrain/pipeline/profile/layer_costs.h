// What each layer of a sequence costs, taken with one micro-batch: what the planner (fit.h) starts from.
//
// internal_bytes are told so that the sum over a cell's layers is what the cell keeps of a micro-batch:
// a layer's input counts to it where anything (itself, or the layer before) holds it for backward, its output
// to the next layer. The loss counts to the last layer.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "entrain/layers/layer.h"
#include "entrain/pipeline/plan/fit.h"

namespace entrain::pipeline {

struct SequenceCosts {
  std::string kind;  // "measured" or "estimated"
  int batch = 1;     // examples they were taken with
  int64_t input_bytes = 0;
  std::vector<LayerCost> layers;
  std::vector<Need> skips;
  std::vector<Need> ties;

  int64_t parameter_bytes() const;
  double flops() const;  // of forward
};

// A request with these costs; the rest is the caller's to fill in.
FitRequest request_for(const SequenceCosts& costs);

// What is known before any layer runs: names, parameters, ties, which layers skips join.
// InputError for a sequence without layers, or whose skips do not match.
SequenceCosts describe_layers(const layers::Sequence& sequence, const torch::Tensor& input);

// Notes the bytes of the skips that layer `i` has just left.
void note_skips(const layers::Sequence& sequence, size_t i, layers::Skips& skips, SequenceCosts* costs);

}  // namespace entrain::pipeline
