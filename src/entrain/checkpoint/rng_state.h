// The state of libtorch's random numbers (dropout, initialisation, torch::randn), as bytes to store.
#pragma once

#include <torch/types.h>

namespace entrain::checkpoint {

// The default CPU generator's state: a uint8 tensor of its own memory. Thread-safe.
torch::Tensor rng_state();

// Continues the default CPU generator from `state`. Throws InputError when it is no such state, and leaves
// the generator as it was. Thread-safe.
void set_rng_state(const torch::Tensor& state);

}  // namespace entrain::checkpoint
