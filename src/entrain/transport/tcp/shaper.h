// A token bucket: a link's rate, kept in user space where the kernel's shaper is not allowed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "entrain/base/clock.h"

namespace entrain::transport {

// available(t) = min(depth, available(t0) + rate * (t - t0)) - used. The depth of 5 ms of traffic
// covers timers that fire late, so the mean rate is kept; nothing is carried over from idle times.
class Shaper {
 public:
  // 0: no limit.
  explicit Shaper(double gbit_per_s)
      : rate_(gbit_per_s * 1e9 / 8), depth_(std::max(rate_ * 0.005, 65536.0)), tokens_(depth_) {}

  // Bytes that may pass now; 0 until a useful piece has gathered.
  size_t allowance(Clock::time_point now) {
    if (rate_ <= 0) return std::numeric_limits<size_t>::max();
    refill(now);
    return tokens_ < piece() ? 0 : static_cast<size_t>(tokens_);
  }
  void use(size_t bytes) {
    if (rate_ > 0) tokens_ -= static_cast<double>(bytes);
  }
  // When allowance() becomes positive again.
  Clock::time_point ready_at(Clock::time_point now) const {
    const double missing = std::max(piece() - tokens_, 0.0);
    return now + std::chrono::duration_cast<Clock::duration>(Seconds(missing / rate_));
  }

 private:
  double piece() const { return std::min(depth_ / 2, 65536.0); }
  void refill(Clock::time_point now) {
    tokens_ = std::min(depth_, tokens_ + Seconds(now - last_).count() * rate_);
    last_ = now;
  }

  double rate_;   // bytes per second
  double depth_;  // bytes
  double tokens_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace entrain::transport
