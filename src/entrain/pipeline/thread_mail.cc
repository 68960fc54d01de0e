#include "entrain/pipeline/thread_mail.h"

#include <thread>

namespace entrain::pipeline {

void ThreadMail::send(const Parcel& parcel, torch::Tensor value) {
  {
    const std::lock_guard lock(mutex_);
    shelf_.emplace(parcel, std::move(value));
  }
  ++news_;
  arrived_.notify_all();
}

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
  const Deadline patience = Deadline::after(patience_);
  torch::Tensor value;
  for (bool there = false; !there;) {
    const uint64_t seen = news_;  // before looking, so that what comes later is news
    std::unique_lock lock(mutex_);
    if (patience.passed()) {
      arrived_.wait(lock, [&] { return there = take(parcel, value); });
    } else {
      there = take(parcel, value);
      lock.unlock();
      while (!there && news_ == seen && !patience.passed()) std::this_thread::yield();
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
  ++news_;
  arrived_.notify_all();
}

void ThreadMail::clear() {
  const std::lock_guard lock(mutex_);
  shelf_.clear();
  error_ = nullptr;
}

}  // namespace entrain::pipeline
