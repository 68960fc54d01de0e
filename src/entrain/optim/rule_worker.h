// What a rule works with: one worker's parameters as one vector, its base optimizer, and the other workers.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "entrain/transport/transport.h"

namespace entrain::optim {

// Moves the parameters into one vector, in order, and makes each of them a view of it. So a message needs no
// copy and a rule is one line of arithmetic. The base optimizer keeps working: parameters stay the same
// tensor objects. Requires: dense, one dtype, one device. Throws InputError naming the parameter that is not.
torch::Tensor flatten(const std::vector<torch::Tensor>& parameters);

struct RuleWorker {
  torch::Tensor x;  // all parameters; see flatten
  torch::optim::Optimizer& base;
  transport::Transport& transport;
  std::vector<int> ranks;                // of all workers, ascending
  std::vector<std::vector<int>> groups;  // the same, by group; one group: there are no local leaders
  int centre = 0;                        // the worker that keeps what asynchronous rules share
  double timeout_s = 120;                // of one exchange
  uint64_t seed = 0;                     // of rules that draw; the same on all workers
  int64_t epoch_steps = 400;             // of one worker: Parle anneals by the epoch
  // In place of the base's step, before anything of it reaches another worker: may leave the step out, or
  // throw. Null: the base's step.
  std::function<void()> update = nullptr;

  void own_update() { update ? update() : static_cast<void>(base.step()); }
};

}  // namespace entrain::optim
