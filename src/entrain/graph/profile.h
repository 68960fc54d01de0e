// G with measured times: runs forward and backward a few times and watches.
#pragma once

#include <torch/types.h>

#include <functional>

#include "entrain/graph/graph.h"

namespace torch::nn {
class Module;
}

namespace entrain::graph {

struct ProfileOptions {
  int warmup = 1;   // runs whose times are thrown away
  int repeats = 5;  // runs whose medians are taken
};

// `loss`: runs the module's forward on a batch and returns the loss, on this thread.
//
// Fills everything that capture() leaves open. model and batch_size stay the caller's to set.
//   forward_s   from an operation that reads the variable to the next that reads another layer's
//   backward_s  from the gradient that was ready before it to its own
//   flops       of the operations in that stretch of forward, times 3: backward computes two products (for
//               the input and for the variable) where forward computes one
// Variables of one layer share its times in proportion to their elements. The loss function counts to the
// last layer in forward and to the first gradient in backward, so the sum of all times is the whole step.
// On a GPU the device is drained at each of these events: times add up, but overlap nothing.
//
// Leaves parameters, gradients and buffers as it found them; the random number generators have advanced.
// Requires: repeats > 0; no other backward of this module at the same time.
Graph profile(const torch::nn::Module& module, const std::function<torch::Tensor()>& loss,
              const ProfileOptions& options = {});

}  // namespace entrain::graph
