// Bounded staleness: who may go on (Ho et al.: More Effective Distributed ML via a Stale Synchronous Parallel
// Parameter Server, 2013).
//
//   clock of a worker      its exchanges that the centre has applied
//   goes on when           clock - slowest <= s            slowest: the least clock of those who count
//
// So s = 0 is bulk-synchronous: nobody begins exchange c + 1 before all have made exchange c. A worker that
// has left, is silent or has been waited for too long does not count, until it is heard of again: then it
// joins the slowest, for nobody is to wait until it has made up for all that it missed.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "entrain/base/clock.h"

namespace entrain::optim {

constexpr int64_t kAnyStaleness = -1;  // nobody waits for anybody

// Time is passed in. Not thread-safe.
class Clocks {
 public:
  // All at 0. `staleness`: s, or kAnyStaleness.
  Clocks(const std::vector<int>& workers, int64_t staleness, Clock::time_point now);

  // An exchange of `worker` has been applied. It waits from now on, if only for take_ready().
  void pushed(int worker);
  // Those who wait and may go on, who do so now.
  std::vector<int> take_ready(Clock::time_point now);
  // Does not count until it pushes again; an answer that it waits for is still due.
  void leave_out(int worker);
  // The same, and it is not there to get an answer.
  void gone(int worker);

  // Those who are waited for: at the slowest clock, not waiting themselves, while somebody waits for them.
  // By rank; with how long they have had since their last answer.
  std::map<int, double> waited_for(Clock::time_point now) const;

  // The most exchanges that a worker was ahead of the slowest when it went on.
  int64_t greatest_lead() const { return greatest_lead_; }

 private:
  struct Pace {
    int64_t clock = 0;
    bool counts = true;
    bool waits = false;
    Clock::time_point answered;
  };
  static constexpr int64_t kNobody = std::numeric_limits<int64_t>::max();
  int64_t slowest() const;  // kNobody: nobody counts

  const int64_t staleness_;
  std::map<int, Pace> workers_;
  int64_t joining_clock_ = 0;  // the slowest clock so far: never falls, also when all have left
  int64_t greatest_lead_ = 0;
};

}  // namespace entrain::optim
