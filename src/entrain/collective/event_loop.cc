#include "entrain/collective/event_loop.h"

namespace entrain::collective {

void EventLoop::post(std::function<void()> event) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  events_.push_back(std::move(event));
  // Under the lock: the event may be the last one, after which the loop's owner destroys it.
  if (events_.size() == 1) changed_.notify_one();
}

bool EventLoop::run_some(Deadline deadline) {
  std::deque<std::function<void()>> batch;
  {
    std::unique_lock lock(mutex_);
    const auto awake = [&] { return stopped_ || !events_.empty(); };
    if (deadline.is_never()) {
      changed_.wait(lock, awake);
    } else if (!changed_.wait_until(lock, deadline.when(), awake)) {
      return false;
    }
    if (stopped_) return false;
    batch.swap(events_);
  }
  for (auto& event : batch) event();
  return true;
}

void EventLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    events_.clear();
  }
  changed_.notify_all();
}

bool EventLoop::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

}  // namespace entrain::collective
