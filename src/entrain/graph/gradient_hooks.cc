#include "entrain/graph/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/torch.h>

#include "entrain/base/error.h"

namespace entrain::graph {
namespace {

// Whether `gradient`, which autograd made of `input` without a copy, is a view of what autograd still uses or
// has made another variable's gradient of as well: of x + p, where p's shape differs by a dimension of 1.
bool is_shared(const torch::Tensor& gradient, const torch::Tensor& input) {
  const bool dense =
      input.defined() && input.layout() == torch::kStrided && gradient.layout() == torch::kStrided;
  if (!dense || !gradient.storage().is_alias_of(input.storage())) return false;
  // Its memory is held by the gradient, by `input`, and where that is a view by its base, held by it alone.
  if (!input.is_view()) return input.storage().use_count() > 2;
  return input.storage().use_count() > 3 || input._base().use_count() > 1;
}

}  // namespace

struct GradientHooks::Hook : torch::autograd::FunctionPostHook {
  Hook(const GradientHooks& owner, size_t variable) : hooks(owner), index(variable) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& inputs) override {
    torch::Tensor& gradient = hooks.variables_[index].mutable_grad();
    if (gradient.defined() && is_shared(gradient, inputs[0])) gradient = gradient.clone();
    hooks.ready_(index);
    return outputs;
  }

  const GradientHooks& hooks;  // removes this hook first
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
    const uintptr_t key = accumulator->add_post_hook(std::make_unique<Hook>(*this, i));
    registered_.push_back({std::move(accumulator), key});
  }
}

GradientHooks::~GradientHooks() {
  for (const Registered& hook : registered_) hook.accumulator->del_post_hook(hook.key);
}

}  // namespace entrain::graph
