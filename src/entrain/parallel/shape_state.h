// Where the parts of a model are under a shape, and how they get from one shape to another: each rank has its
// own layers' parameters and buffers, and what the optimizer remembers of them.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/layers/layer.h"
#include "entrain/strategy/shape.h"

namespace entrain::parallel {

// A parameter or a buffer of the module, each tensor once.
struct ModelPart {
  std::string name;  // in the module: that which was registered first
  torch::Tensor tensor;
  bool parameter = true;
  std::vector<int64_t> sizes;
  std::vector<int> layers;  // that use it, ascending; none: no layer does, and every rank keeps it
  int64_t bytes() const;
};

std::vector<ModelPart> parts_of(const torch::nn::Module& module, const layers::Sequence& sequence);

// Ranks that have each part, ascending.
using Holdings = std::vector<std::vector<int>>;
Holdings holdings_under(const strategy::Shape& shape, const std::vector<ModelPart>& parts,
                        const std::vector<int>& workers);

// Collective over the workers: brings every part, with what the optimizer remembers of it, to those who want
// it and had it not, by the fewest bytes (plan/moves.h). Afterwards the optimizer of each rank remembers what
// is `wanted` there and no more. Returns the bytes that this rank was sent.
int64_t move_parts(job::Context& context, const torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                   const std::vector<ModelPart>& parts, const Holdings& had, const Holdings& wanted);

// Gives back the memory of the parts that this rank has no longer.
void keep_only_held(int rank, const std::vector<ModelPart>& parts, const Holdings& held);

}  // namespace entrain::parallel
