// What a handle trains.
#pragma once

#include "entrain/graph/capture.h"

namespace torch::optim {
class Optimizer;
}

namespace entrain::parallel {

// The module's parameters and whatever else the optimizer (may be null) holds, each tensor once: the
// module's under the name registered first, others as optimizer.GROUP.INDEX. Those that require no gradient
// too.
graph::NamedTensors held_tensors(const torch::nn::Module& module, torch::optim::Optimizer* optimizer);

// Of those, the ones that require a gradient now.
graph::NamedTensors trained_tensors(const torch::nn::Module& module, torch::optim::Optimizer* optimizer);

}  // namespace entrain::parallel
