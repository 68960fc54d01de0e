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
  // Thread-safe.
  void post(std::function<void()> event);

  // Waits for events and runs those that are there. False when none came before `deadline`, or
  // the loop was stopped. Only one thread runs a loop.
  bool run_some(Deadline deadline);

  // Events posted and to come are dropped.
  void stop();
  bool stopped() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> events_;  // guarded by mutex_
  bool stopped_ = false;                      // guarded by mutex_
};

}  // namespace entrain::collective
