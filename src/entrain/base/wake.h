// Waking other threads, together where much is handed over at once.
//
// Waking a thread takes longer than handling a small message does, and the woken thread may take the core of
// the one that woke it: handed over one by one, forty small messages made forty switches back and forth.
//
//   one by one   post  ┌▶ run ─▶ sleep ┐ post  ┌▶ run ─▶ sleep ┐ ...
//                 └────┘               └─▶ └────┘               └─▶
//   together     post post post post ──▶ run run run run ─▶ sleep
#pragma once

#include <memory>
#include <vector>

namespace entrain {

// A thread that may be asleep.
class Sleeper {
 public:
  virtual ~Sleeper() = default;
  virtual void wake() = 0;  // any thread
};

// Wakes it now, or at the end of this thread's WakeTogether. What it is to find is there already.
void wake(const std::shared_ptr<Sleeper>& sleeper);

// While one lives, this thread wakes nobody. Of nested ones only the outermost counts.
class WakeTogether {
 public:
  WakeTogether();
  ~WakeTogether();
  WakeTogether(const WakeTogether&) = delete;
  WakeTogether& operator=(const WakeTogether&) = delete;

  // Wakes at once those who wait for it: something large has been handed over.
  static void now();

 private:
  std::vector<std::shared_ptr<Sleeper>> sleepers_;
  bool outermost_;
};

// As large as this: handling it takes longer than waking.
constexpr size_t kWorthWaking = 32 << 10;

}  // namespace entrain
