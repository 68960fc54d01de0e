#include "entrain/optim/clocks.h"

#include <algorithm>

namespace entrain::optim {

Clocks::Clocks(const std::vector<int>& workers, int64_t staleness, Clock::time_point now)
    : staleness_(staleness) {
  for (const int worker : workers) workers_[worker].answered = now;
}

int64_t Clocks::slowest() const {
  int64_t least = kNobody;
  for (const auto& [rank, worker] : workers_) {
    if (worker.counts) least = std::min(least, worker.clock);
  }
  return least;
}

void Clocks::pushed(int worker) {
  Pace& self = workers_.at(worker);
  if (!self.counts) {
    self.clock = std::max(self.clock, joining_clock_);
    self.counts = true;
  }
  ++self.clock;
  self.waits = true;
  joining_clock_ = std::max(joining_clock_, slowest());
}

std::vector<int> Clocks::take_ready(Clock::time_point now) {
  std::vector<int> ready;
  const int64_t least = slowest();
  for (auto& [rank, worker] : workers_) {
    // Of one that does not count itself the lead may be negative.
    const int64_t lead = least == kNobody ? 0 : worker.clock - least;
    if (!worker.waits || (staleness_ != kAnyStaleness && lead > staleness_)) continue;
    worker.waits = false;
    worker.answered = now;
    greatest_lead_ = std::max(greatest_lead_, lead);
    ready.push_back(rank);
  }
  return ready;
}

void Clocks::leave_out(int worker) { workers_.at(worker).counts = false; }

void Clocks::gone(int worker) {
  workers_.at(worker).counts = false;
  workers_.at(worker).waits = false;
}

std::map<int, double> Clocks::waited_for(Clock::time_point now) const {
  std::map<int, double> result;
  const bool somebody_waits =
      std::any_of(workers_.begin(), workers_.end(), [](const auto& entry) { return entry.second.waits; });
  if (!somebody_waits) return result;
  const int64_t least = slowest();
  for (const auto& [rank, worker] : workers_) {
    if (worker.counts && !worker.waits && worker.clock == least) {
      result[rank] = Seconds(now - worker.answered).count();
    }
  }
  return result;
}

}  // namespace entrain::optim
