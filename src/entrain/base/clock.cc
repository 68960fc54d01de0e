#include "entrain/base/clock.h"

#include <algorithm>
#include <cmath>

#include "entrain/base/limits.h"

namespace entrain {

double seconds_since(Clock::time_point start) { return Seconds(Clock::now() - start).count(); }

// Clocks count in 64 bits of nanoseconds: 292 years.
Deadline Deadline::after(Seconds duration) {
  if (!(duration.count() < kMaxSeconds)) duration = Seconds(kMaxSeconds);
  return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(duration));
}

Seconds Deadline::left() const {
  constexpr Seconds kDay(86400.0);
  if (is_never()) return kDay;
  return std::clamp(Seconds(when_ - Clock::now()), Seconds(0), kDay);
}

int Deadline::left_ms() const { return static_cast<int>(std::ceil(left().count() * 1000)); }

}  // namespace entrain
