// Values that are not finite (infinity, NaN): what a job does about them, and how they are found.
#pragma once

#include <torch/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "entrain/base/non_finite.h"  // IWYU pragma: export

namespace torch::optim {
class Optimizer;
}

namespace entrain {

// "stop" or "skip", which programs choose from. Throws InputError naming the value and what is allowed.
NonFinite parse_non_finite(std::string_view name);
std::string_view to_string(NonFinite policy);

}  // namespace entrain

namespace entrain::optim {

// Whether no element is infinite or NaN. True for an undefined tensor and for integers; of a sparse tensor
// the stored values count. On the CPU it reads the memory once, at the speed of the memory; on a GPU it waits
// for the stream.
bool all_finite(const torch::Tensor& tensor);
// The same of all of them; waits for a GPU once.
bool all_finite(const std::vector<torch::Tensor>& tensors);

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// The name of the first tensor that is not all_finite().
std::optional<std::string> first_non_finite(const NamedTensors& tensors);

// For an error message: "3 of 864 values, the first is nan". Requires: !all_finite(tensor).
std::string describe_non_finite(const torch::Tensor& tensor);

// What is wrong with a worker's step, or nothing: "the loss is nan", "the gradient of fc.weight is not finite
// (3 of 864 values, the first is inf)". `parameters` by name, with gradients.
std::optional<std::string> trouble_with(double loss, const NamedTensors& parameters);

// optimizer.step(), after which a parameter that is not finite ends the job: throws as stop_at_non_finite().
void update_and_check(torch::optim::Optimizer& optimizer, const NamedTensors& parameters, int rank,
                      int64_t step);

// Throws Error with what all kinds of training say: "rank 1, step 12: WHAT; ...".
[[noreturn]] void stop_at_non_finite(int rank, int64_t step, const std::string& what);

}  // namespace entrain::optim
