// What a rank sends for a variable that it has no gradient of: -0, because it adds like 0 and yet (-0) + (-0)
// alone is -0. So all holders see it when nobody has used the variable.
#pragma once

#include <torch/types.h>

#include "entrain/graph/graph.h"

namespace entrain::parallel {

torch::Tensor no_gradient(const graph::Variable& described, const torch::Tensor& variable);

// Whether every holder sent no_gradient().
bool is_no_gradient(const torch::Tensor& gradient);

// A gradient that is there must not look like no_gradient(): its first element may be 0, but not -0.
void mark_as_made(torch::Tensor& gradient);

}  // namespace entrain::parallel
