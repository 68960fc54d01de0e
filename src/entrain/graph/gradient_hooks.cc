#include "entrain/graph/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/torch.h>

#include "entrain/base/error.h"

namespace entrain::graph {

struct GradientHooks::Hook : torch::autograd::FunctionPostHook {
  Hook(const std::function<void(size_t)>& function, size_t variable) : ready(function), index(variable) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    ready(index);
    return outputs;
  }

  const std::function<void(size_t)>& ready;  // of the GradientHooks, which removes this hook first
  size_t index;
};

GradientHooks::GradientHooks(std::vector<torch::Tensor> variables, std::function<void(size_t)> ready)
    : variables_(std::move(variables)), ready_(std::move(ready)) {
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (!variables_[i].requires_grad() || !variables_[i].is_leaf()) {
      fail("gradient hooks: variable {} is not a leaf that requires a gradient", i);
    }
  }
  for (size_t i = 0; i < variables_.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(variables_[i]);
    const uintptr_t key = accumulator->add_post_hook(std::make_unique<Hook>(ready_, i));
    registered_.push_back({std::move(accumulator), key});
  }
}

GradientHooks::~GradientHooks() {
  for (const Registered& hook : registered_) hook.accumulator->del_post_hook(hook.key);
}

}  // namespace entrain::graph
