// G of a model that is a sequence of layers, with what its layers take: timed on this rank alone, while the
// others wait, without the network, and on a machine that emulates all hosts with the cores to itself.
#pragma once

#include <functional>

#include "entrain/graph/graph.h"
#include "entrain/layers/layer.h"
#include "entrain/models/model.h"

namespace entrain::trials {

struct ToProfile {
  torch::nn::Module& module;
  layers::Sequence sequence;                                // no layers: only the whole model is timed
  std::function<torch::Tensor(const models::Batch&)> loss;  // of the whole model
  std::function<models::Batch(int64_t count)> examples;     // any, the first `count` of an update
  int64_t batch_size = 0;                                   // per rank, at which the whole model is timed
  int workers = 1;
};

// Leaves parameters, gradients, buffers and torch's random numbers as they were.
graph::Graph profiled(const ToProfile& model);

}  // namespace entrain::trials
