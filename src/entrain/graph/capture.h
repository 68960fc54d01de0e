// G from any torch::nn::Module: walks the autograd graph that a forward pass has left behind.
#pragma once

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "entrain/graph/graph.h"

namespace torch::nn {
class Module;
}

namespace entrain::graph {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// The module's parameters that require a gradient, each tensor once (a tied one under the name registered
// first), in order of registration.
NamedTensors trainable_parameters(const torch::nn::Module& module);

struct Capture {
  Graph graph;
  std::vector<torch::Tensor> variables;  // of graph.variables, in that order
  std::vector<int> layers;  // per variable; equal where one operation reads both (weight and bias)
};

// `loss`: what forward and the loss function returned, before backward() frees its graph; undefined: it is
// not known what reads what.
//
// Variables are `parameters`, ordered by the first operation that reads them; those the loss does not depend
// on come last, in the given order. What is computed from parameters only (a transpose, a weight norm)
// belongs to the operation that combines it with data. An edge that returns to a tied variable has from > to.
//
// Not known before backward, so left at defaults: sparse, times, FLOPs; ready_order is the reverse of the
// data-flow order. describe_gradients() and profile() fill them.
//
// Time is linear in the graph, apart from the number of edges. Errors: Error if the loss has no gradient or
// a variable has a dtype other than those of graph.h.
Capture capture_variables(const NamedTensors& parameters, const torch::Tensor& loss);

inline Capture capture_variables(const torch::nn::Module& module, const torch::Tensor& loss) {
  return capture_variables(trainable_parameters(module), loss);
}
inline Graph capture(const torch::nn::Module& module, const torch::Tensor& loss) {
  return capture_variables(module, loss).graph;
}

// After a backward: `ready` lists the variables in the order in which GradientHooks reported them. Fills
// ready_order (variables without a gradient come last), sparse and rows_per_step.
void describe_gradients(Capture& captured, const std::vector<size_t>& ready);

// As graph.h names types. Errors: Error for another one, naming the variable.
std::string dtype_name(const std::string& variable, torch::ScalarType type);

// Those of `parameters` in the order of graph.variables. Errors: Error if one is missing or its shape
// differs, naming the variable.
std::vector<torch::Tensor> tensors_of(const NamedTensors& parameters, const Graph& graph);

}  // namespace entrain::graph
