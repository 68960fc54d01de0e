#include "entrain/layers/batch_norm.h"

#include "entrain/base/error.h"
#include "entrain/layers/pass.h"

namespace entrain::layers {
namespace {

void for_each(torch::nn::Module& module, const std::function<void(BatchNorm2dImpl&)>& apply) {
  for (const auto& part : module.modules()) {
    if (auto* norm = dynamic_cast<BatchNorm2dImpl*>(part.get())) apply(*norm);
  }
}

}  // namespace

BatchNorm2dImpl::BatchNorm2dImpl(int64_t channels) {
  weight = register_parameter("weight", torch::ones({channels}));
  bias = register_parameter("bias", torch::zeros({channels}));
  running_mean = register_buffer("running_mean", torch::zeros({channels}));
  running_var = register_buffer("running_var", torch::ones({channels}));
  num_batches_tracked = register_buffer("num_batches_tracked", torch::zeros({}, torch::kLong));
}

void BatchNorm2dImpl::reset_running_stats() {
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

double BatchNorm2dImpl::share() const {
  return momentum ? *momentum : 1.0 / num_batches_tracked.item<double>();
}

torch::Tensor BatchNorm2dImpl::forward(const torch::Tensor& x) {
  const bool cudnn = at::globalContext().userEnabledCuDNN();
  const auto normalize = [&](const torch::Tensor& mean, const torch::Tensor& variance, double part) {
    return torch::batch_norm(x, weight, bias, mean, variance, is_training(), part, eps, cudnn);
  };
  if (!is_training()) return normalize(running_mean, running_var, 0);
  if (x.numel() == x.size(1)) {
    bad_input(
        "batch norm over one value per channel (an input of {}x{}x{}x{}) has no variance; allowed: more "
        "examples "
        "a (micro-)batch",
        x.size(0), x.size(1), x.size(2), x.size(3));
  }
  if (!deferred_ && !recomputing()) {
    num_batches_tracked += 1;
    return normalize(running_mean, running_var, share());
  }
  // With momentum 1 the operation leaves the batch's own statistics in its running ones: no further pass
  // over x is needed to know them.
  const torch::Tensor mean = torch::zeros_like(running_mean), variance = torch::zeros_like(running_var);
  const torch::Tensor y = normalize(mean, variance, 1);
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
  running_mean.lerp_(mean.to(running_mean.scalar_type()), share());
  running_var.lerp_(variance.to(running_var.scalar_type()), share());
  count_ = 0;
}

torch::Tensor BatchNorm2dImpl::gathered() const {
  if (count_ == 0) return torch::zeros({1 + 2 * weight.numel()}, torch::kDouble);
  return torch::cat({torch::full({1}, count_, torch::kDouble), sum_.cpu(), squares_.cpu()});
}

void BatchNorm2dImpl::set_gathered(const torch::Tensor& gathered) {
  const int64_t channels = weight.numel();
  count_ = gathered[0].item<double>();
  sum_ = gathered.narrow(0, 1, channels).to(weight.device());
  squares_ = gathered.narrow(0, 1 + channels, channels).to(weight.device());
}

namespace {

bool is_batch_norm(const torch::nn::Module& module) {
  const auto buffers = module.named_buffers(/*recurse=*/false);
  const auto* mean = buffers.find("running_mean");
  return mean != nullptr && mean->defined();
}

}  // namespace

bool has_undeferrable_statistics(const torch::nn::Module& module) {
  const auto all = module.modules();
  return std::any_of(all.begin(), all.end(), [](const auto& part) {
    return is_batch_norm(*part) && dynamic_cast<const BatchNorm2dImpl*>(part.get()) == nullptr;
  });
}

bool mixes_examples(const torch::nn::Module& module) {
  const auto all = module.modules();
  return std::any_of(all.begin(), all.end(), [](const auto& part) { return is_batch_norm(*part); });
}

void defer_batch_norm(torch::nn::Module& module, bool on) {
  for_each(module, [on](BatchNorm2dImpl& norm) { norm.defer(on); });
}

void commit_batch_norm(torch::nn::Module& module) {
  for_each(module, [](BatchNorm2dImpl& norm) { norm.commit(); });
}

void discard_batch_norm(torch::nn::Module& module) {
  for_each(module, [](BatchNorm2dImpl& norm) { norm.discard(); });
}

torch::Tensor gathered_statistics(torch::nn::Module& module) {
  std::vector<torch::Tensor> parts = {torch::empty({0}, torch::kDouble)};
  for_each(module, [&](const BatchNorm2dImpl& norm) { parts.push_back(norm.gathered()); });
  return torch::cat(parts);
}

void set_gathered_statistics(torch::nn::Module& module, const torch::Tensor& gathered) {
  int64_t at = 0;
  for_each(module, [&](BatchNorm2dImpl& norm) {
    const int64_t size = norm.gathered().numel();
    norm.set_gathered(gathered.narrow(0, at, size));
    at += size;
  });
}

}  // namespace entrain::layers
