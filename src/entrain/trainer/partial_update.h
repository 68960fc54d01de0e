// Steps any torch::optim optimizer for some of its parameters only, so that a variable can be
// updated as soon as its gradient is synchronized.
#pragma once

#include <torch/torch.h>

#include <unordered_map>

namespace entrain {

// libtorch's optimizers keep their state by parameter, so a step over a group that holds only
// some of the parameters updates exactly those.
class PartialUpdate {
 public:
  // Throws InputError for an optimizer whose update couples the parameters (LBFGS).
  explicit PartialUpdate(torch::optim::Optimizer& optimizer);

  // One step for `parameter` with the options of its group as they are now (schedulers may change
  // them). A parameter the optimizer does not hold stays as it is.
  void update(const torch::Tensor& parameter);

 private:
  torch::optim::Optimizer& optimizer_;
  std::unordered_map<const void*, size_t> group_of_;  // by tensor
};

}  // namespace entrain
