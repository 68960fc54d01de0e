#include "entrain/optim/rule_worker.h"

#include "entrain/base/error.h"

namespace entrain::optim {

torch::Tensor flatten(const std::vector<torch::Tensor>& parameters) {
  if (parameters.empty()) bad_input("the model has no parameters");
  const torch::Tensor& first = parameters.front();
  int64_t count = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& p = parameters[i];
    if (p.layout() != torch::kStrided || p.options().dtype() != first.dtype() ||
        p.device() != first.device()) {
      bad_input(
          "parameter {} is {} on {}; training apart needs dense parameters all like the first, {} on {}", i,
          torch::toString(p.scalar_type()), p.device().str(), torch::toString(first.scalar_type()),
          first.device().str());
    }
    count += p.numel();
  }
  const torch::NoGradGuard no_grad;
  torch::Tensor x = torch::empty({count}, first.options().requires_grad(false));
  int64_t at = 0;
  for (torch::Tensor p : parameters) {
    torch::Tensor view = x.narrow(0, at, p.numel()).view(p.sizes());
    view.copy_(p);
    p.set_data(view);
    at += p.numel();
  }
  return x;
}

}  // namespace entrain::optim
