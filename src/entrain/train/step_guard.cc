#include "entrain/train/step_guard.h"

#include <torch/torch.h>

#include "entrain/base/error.h"
#include "entrain/base/log.h"

namespace entrain::train {

StepGuard::StepGuard(int rank, NonFinite policy, const torch::nn::Module& module,
                     std::function<void(const std::string&)> on_stop)
    : rank_(rank), policy_(policy), on_stop_(std::move(on_stop)), buffers_(module.buffers()) {
  for (const auto& item : module.named_parameters()) parameters_.emplace_back(item.key(), item.value());
}

void StepGuard::begin(int64_t step) {
  step_ = step;
  if (policy_ != NonFinite::kSkip) return;
  kept_.clear();
  for (const auto& buffer : buffers_) kept_.push_back(buffer.detach().clone());
}

bool StepGuard::may_update(double loss) {
  if (policy_ == NonFinite::kAllow) return true;
  const auto trouble = optim::trouble_with(loss, parameters_);
  if (!trouble) return true;
  if (policy_ == NonFinite::kStop) stop(*trouble);
  if (skipped_++ == 0) log_warn("rank {}, step {}: {}; update skipped", rank_, step_, *trouble);
  put_back_buffers();
  return false;
}

void StepGuard::put_back_buffers() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(kept_[i]);
}

void StepGuard::check_parameters(const char* when) const {
  if (policy_ == NonFinite::kAllow) return;
  if (const auto name = optim::first_non_finite(parameters_)) {
    stop(fmt::format("{} is not finite {}", *name, when));
  }
}

void StepGuard::check_parameters(const torch::Tensor& all, const char* when) const {
  if (!optim::all_finite(all)) check_parameters(when);
}

void StepGuard::stop(const std::string& what) const {
  try {
    optim::stop_at_non_finite(rank_, step_, what);
  } catch (const Error& e) {
    if (on_stop_) on_stop_(e.what());
    throw;
  }
}

}  // namespace entrain::train
