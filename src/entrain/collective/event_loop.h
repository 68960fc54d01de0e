// One thread's inbox of work: transports, backward and timers post, one thread runs.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "entrain/base/clock.h"

namespace entrain::collective {

// Must outlive every callback that posts to it.
class EventLoop {
 public:
  // Thread-safe. After stop() events are dropped.
  void post(std::function<void()> event);

  // Runs events as they come until `finished()` holds (asked between batches of events) or stop().
  // Returns false when `deadline` passed first. Only one thread runs a loop.
  bool run_until(const std::function<bool()>& finished, Deadline deadline);

  void stop();
  bool stopped() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> events_;  // guarded by mutex_
  bool stopped_ = false;                      // guarded by mutex_
};

}  // namespace entrain::collective
