#include "entrain/pipeline/thread_mail.h"

#include "entrain/base/clock.h"

namespace entrain::pipeline {

void ThreadMail::send(const Parcel& parcel, torch::Tensor value) {
  {
    const std::lock_guard lock(mutex_);
    shelf_.emplace(parcel, std::move(value));
  }
  arrived_.notify_all();
}

torch::Tensor ThreadMail::receive(const Parcel& parcel, Waited& waited) {
  const auto start = Clock::now();
  std::unique_lock lock(mutex_);
  auto found = shelf_.end();
  arrived_.wait(lock, [&] { return error_ || (found = shelf_.find(parcel)) != shelf_.end(); });
  if (error_) std::rethrow_exception(error_);
  torch::Tensor value = std::move(found->second);
  shelf_.erase(found);
  waited.for_sender += seconds_since(start);
  return value;
}

void ThreadMail::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  arrived_.notify_all();
}

void ThreadMail::clear() {
  const std::lock_guard lock(mutex_);
  shelf_.clear();
  error_ = nullptr;
}

}  // namespace entrain::pipeline
