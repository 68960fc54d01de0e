// Hogwild (Niu, Recht, Re, Wright, 2011): threads share x and step without locks.
//
//   each thread, repeatedly:   g = gradient at whatever x is while it looks;   x <- base(x, g)
//
// Updates of two threads to one element may overwrite each other, and a thread may see x half updated: the
// rule lives with that. Every thread has a replica of the model whose parameters are views of the one x, and
// a base optimizer of its own (momentum is a thread's, only x is shared).
#pragma once

#include <torch/torch.h>

#include <atomic>
#include <functional>
#include <vector>

namespace entrain::optim {

struct HogwildReplica {
  std::vector<torch::Tensor> parameters;    // in the order of those that x was flattened from
  torch::optim::Optimizer* base = nullptr;  // of these parameters; outlives the run
  // Runs forward on the next batch of this replica, in that step of all: its mean loss, to go backward from.
  // On its own thread.
  std::function<torch::Tensor(int64_t step)> next_loss;
  // With the gradients there, on its own thread: false leaves the update out; may throw. Null: every update
  // is made.
  std::function<bool(double loss)> may_update = nullptr;
};

// Makes `parameters` views of x (see flatten); their values are x's from then on. Throws InputError when they
// are not what x was flattened from.
void share(const torch::Tensor& x, const std::vector<torch::Tensor>& parameters);

// Runs one thread per replica until `steps` steps have been made by all of them together, or `stop` is set.
// `after` (optional) hears of each step: the replica, the number of the step, its loss; calls are not
// concurrent. Returns the steps made. The first exception of a thread stops all and is thrown here.
// Requires: share(x, replica.parameters) was called for each replica (or flatten made x from them).
using AfterStep = std::function<void(int replica, int64_t step, double loss)>;
int64_t run_hogwild(std::vector<HogwildReplica>& replicas, int64_t steps, const AfterStep& after = nullptr,
                    const std::atomic<bool>* stop = nullptr);

}  // namespace entrain::optim
