// Applies an optimizer's update: to all parameters at once, or to each as its gradient arrives.
#pragma once

#include <torch/torch.h>

#include <unordered_map>
#include <vector>

namespace entrain::parallel {

// libtorch's own optimizers, but for LBFGS, treat each parameter by itself: a step over a group that holds
// only one updates just that one. Nothing is known of others.
class Updater {
 public:
  // The optimizer outlives this.
  explicit Updater(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {}

  // Looks at the groups as they are now: the updates of this step go by these options, whenever they are
  // made. Throws InputError for LBFGS, which needs a closure.
  void begin();

  // Whether updating one parameter after the other is what optimizer.step() does: not for an optimizer of
  // the user's own, nor where a tensor is listed twice (libtorch updates it twice).
  bool one_by_one() const { return one_by_one_; }
  bool holds(const torch::Tensor& parameter) const;

  // Requires: one_by_one(), and that the parameter is held.
  void update(const torch::Tensor& parameter);
  // optimizer.step().
  void update_all() { optimizer_.step(); }

 private:
  torch::optim::Optimizer& optimizer_;
  bool one_by_one_ = false;
  std::vector<torch::optim::OptimizerParamGroup> groups_;  // options of this step, without parameters
  std::unordered_map<const c10::TensorImpl*, size_t> group_of_;
};

}  // namespace entrain::parallel
