#include "entrain/layers/batch_norm.h"

#include "entrain/layers/pass.h"

namespace entrain::layers {
namespace {

void for_each(torch::nn::Module& module, const std::function<void(BatchNorm2dImpl&)>& apply) {
  for (const auto& part : module.modules()) {
    if (auto* norm = dynamic_cast<BatchNorm2dImpl*>(part.get())) apply(*norm);
  }
}

}  // namespace

torch::Tensor BatchNorm2dImpl::forward(const torch::Tensor& x) {
  if (!is_training() || (!deferred_ && !recomputing())) return torch::nn::BatchNorm2dImpl::forward(x);
  // With momentum 1 the operation leaves the batch's own statistics in its running ones: no further pass
  // over x is needed to know them.
  const torch::Tensor mean = torch::zeros_like(running_mean), variance = torch::zeros_like(running_var);
  const torch::Tensor y = torch::batch_norm(x, weight, bias, mean, variance, true, 1.0, options.eps(),
                                            at::globalContext().userEnabledCuDNN());
  if (deferred_ && !recomputing()) {
    const torch::NoGradGuard no_grad;
    const auto n = static_cast<double>(x.numel() / x.size(1));
    const torch::Tensor m = mean.to(torch::kDouble), v = variance.to(torch::kDouble);
    const torch::Tensor sum = m * n, squares = v * (n - 1) + m * m * n;
    sum_ = count_ == 0 ? sum : sum_ + sum;
    squares_ = count_ == 0 ? squares : squares_ + squares;
    count_ += n;
  }
  return y;
}

void BatchNorm2dImpl::commit() {
  if (count_ == 0) return;
  const torch::NoGradGuard no_grad;
  const torch::Tensor mean = sum_ / count_;
  const torch::Tensor variance = (squares_ / count_ - mean * mean) * (count_ / std::max(count_ - 1, 1.0));
  num_batches_tracked += 1;
  const double momentum = options.momentum() ? *options.momentum() : 1.0 / num_batches_tracked.item<double>();
  running_mean.lerp_(mean.to(running_mean.scalar_type()), momentum);
  running_var.lerp_(variance.to(running_var.scalar_type()), momentum);
  count_ = 0;
}

void defer_batch_norm(torch::nn::Module& module, bool on) {
  for_each(module, [on](BatchNorm2dImpl& norm) { norm.defer(on); });
}

void commit_batch_norm(torch::nn::Module& module) {
  for_each(module, [](BatchNorm2dImpl& norm) { norm.commit(); });
}

}  // namespace entrain::layers
