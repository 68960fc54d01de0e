// Tells when backward has made a variable's gradient.
#pragma once

#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace entrain::graph {

// Calls `ready(i)` once per backward, when variables[i].grad() is complete: all uses of the variable have
// contributed. Its memory is nobody else's, so it may be changed at once. Backward goes on when ready
// returns, so communication started there overlaps with it. A variable that the loss does not depend on is
// never reported.
//
// Requires: leaf variables that require a gradient, each given once. Not destroyed while a backward runs.
// Threads: ready runs on the thread that makes the gradient: for CPU the one that called backward(), for GPUs
// a thread of the autograd engine.
// Ownership: keeps the variables alive. Removes its hooks when destroyed.
// Errors: Error for an unusable variable; what ready throws ends backward() and leaves it.
class GradientHooks {
 public:
  GradientHooks(std::vector<torch::Tensor> variables, std::function<void(size_t)> ready);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  struct Hook;
  struct Registered {
    // A variable itself only holds it weakly. Which pointer it is depends on libtorch's version.
    decltype(torch::autograd::impl::grad_accumulator(torch::Tensor())) accumulator;
    uintptr_t key;
  };

  std::vector<torch::Tensor> variables_;
  std::function<void(size_t)> ready_;
  std::vector<Registered> registered_;
};

}  // namespace entrain::graph
