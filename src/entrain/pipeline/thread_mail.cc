#include "entrain/pipeline/thread_mail.h"

#include "entrain/base/clock.h"

namespace entrain::pipeline {
namespace {

constexpr double kSpin_s = 0.002;

}  // namespace

void ThreadMail::send(const Parcel& parcel, torch::Tensor value) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    shelf_.emplace(parcel, std::move(value));
    wake = asleep_ > 0;
  }
  ++changes_;
  if (wake) arrived_.notify_all();
}

// Requires: mutex_ is held.
bool ThreadMail::take(const Parcel& parcel, torch::Tensor& value) {
  if (error_) std::rethrow_exception(error_);
  const auto found = shelf_.find(parcel);
  if (found == shelf_.end()) return false;
  value = std::move(found->second);
  shelf_.erase(found);
  return true;
}

torch::Tensor ThreadMail::receive(const Parcel& parcel, Waited& waited) {
  const auto start = Clock::now();
  torch::Tensor value;
  while (true) {
    const uint64_t seen = changes_;
    {
      std::unique_lock lock(mutex_);
      if (take(parcel, value)) break;
      if (!spin_ || seconds_since(start) > kSpin_s) {
        ++asleep_;
        arrived_.wait(lock, [&] { return error_ || shelf_.contains(parcel); });
        --asleep_;
        continue;
      }
    }
    while (changes_ == seen && seconds_since(start) <= kSpin_s) {
    }
  }
  waited.for_sender += seconds_since(start);
  return value;
}

void ThreadMail::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  ++changes_;
  arrived_.notify_all();
}

void ThreadMail::clear() {
  const std::lock_guard lock(mutex_);
  shelf_.clear();
  error_ = nullptr;
}

}  // namespace entrain::pipeline
