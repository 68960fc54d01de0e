// Time: a monotonic clock and deadlines. Every blocking call of entrain takes a Deadline.
#pragma once

#include <chrono>

namespace entrain {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Seconds since `start`.
double seconds_since(Clock::time_point start);

// A point in time after which an operation has failed. Passed down by value, so that
// nested calls share one limit.
class Deadline {
 public:
  static Deadline after(Seconds duration);
  static Deadline after(double seconds) { return after(Seconds(seconds)); }
  static Deadline never() { return Deadline(Clock::time_point::max()); }

  bool passed() const { return Clock::now() >= when_; }
  bool is_never() const { return when_ == Clock::time_point::max(); }
  Clock::time_point when() const { return when_; }

  // Time left, at least 0; a day when there is no limit (fits every system call).
  Seconds left() const;
  // The same in whole milliseconds rounded up, for poll() and epoll_wait().
  int left_ms() const;

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}
  Clock::time_point when_;
};

}  // namespace entrain
