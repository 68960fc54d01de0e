#include "entrain/base/event_loop.h"

namespace entrain {

void EventLoop::Inbox::wake() { changed.notify_one(); }

void EventLoop::post(std::function<void()> event) {
  // The event may be the last one, after which the loop's owner destroys it.
  const std::shared_ptr<Inbox> inbox = inbox_;
  {
    const std::lock_guard lock(inbox->mutex);
    if (inbox->stopped) return;
    inbox->events.push_back(std::move(event));
    if (inbox->events.size() > 1) return;  // whoever posted the first one wakes
  }
  entrain::wake(inbox);
}

bool EventLoop::run_some(Deadline deadline) {
  WakeTogether::now();  // who waits, here, for what others do
  std::deque<std::function<void()>> batch;
  {
    std::unique_lock lock(inbox_->mutex);
    const auto awake = [&] { return inbox_->stopped || !inbox_->events.empty(); };
    if (deadline.is_never()) {
      inbox_->changed.wait(lock, awake);
    } else if (!inbox_->changed.wait_until(lock, deadline.when(), awake)) {
      return false;
    }
    if (inbox_->stopped) return false;
    batch.swap(inbox_->events);
  }
  const WakeTogether together;
  for (auto& event : batch) event();
  return true;
}

void EventLoop::stop() {
  {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->stopped = true;
    inbox_->events.clear();
  }
  inbox_->changed.notify_all();
}

bool EventLoop::stopped() const {
  const std::lock_guard lock(inbox_->mutex);
  return inbox_->stopped;
}

}  // namespace entrain
