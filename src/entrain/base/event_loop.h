// One thread's inbox of work: transports, backward and timers post, one thread runs.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "entrain/base/clock.h"
#include "entrain/base/wake.h"

namespace entrain {

// Must outlive every callback that posts to it.
class EventLoop {
 public:
  // Thread-safe.
  void post(std::function<void()> event);

  // Waits for events and runs those that are there; whom they wake is woken after the last of them (wake.h).
  // False when none came before `deadline`, or the loop was stopped. Only one thread runs a loop.
  bool run_some(Deadline deadline);

  // Events posted and to come are dropped.
  void stop();
  bool stopped() const;

 private:
  // Lives on while somebody is about to wake its thread.
  struct Inbox final : Sleeper {
    void wake() override;

    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> events;  // guarded by mutex
    bool stopped = false;                      // guarded by mutex
  };
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
};

}  // namespace entrain
