// A handle whose strategy rank 0's advisor may change between any two steps.
#pragma once

#include <optional>

#include "entrain/job/step_control.h"
#include "entrain/parallel/distributed.h"
#include "entrain/trials/strategy_advisor.h"

namespace entrain::trials {

// One per worker; the same calls in the same order on all of them. Context, handle and advisor outlive it.
//
//   before_step() ─▶ step ─▶ after_step() ─▶ before_step() ─▶ ...
//
// What the advisor wants is announced at the next before_step() and made at the one after it, so that no step
// waits for an order.
class Advised {
 public:
  // `advisor`: null on other ranks than 0, and where the strategy stays as it is.
  // `stream`: see StepControl.
  Advised(job::Context& context, StrategyAdvisor* advisor, int stream = 0)
      : advisor_(advisor), rank_(context.rank()), control_(context, stream) {}

  // What comes now: kGo, kStop, or kSwitch when the strategy has just been changed. Arguments as those of
  // StepControl::next().
  job::Order::Kind before_step(parallel::Distributed& handle, bool stop, bool last);

  // `seconds`: of the step that was made, whose number is `step`. Requires: it is not the handle's first.
  void after_step(const parallel::Distributed& handle, int64_t step, double seconds);

  // No more steps, though nobody said `last`: takes the order for the next one. Throws PeerError.
  void end() { control_.end(); }

 private:
  StrategyAdvisor* advisor_;
  int rank_;
  job::StepControl control_;
  std::optional<strategy::Strategy> wanted_;  // by the advisor
  bool announced_ = false;                    // that change
  bool changed_ = false;                      // the strategy, before the step under way
};

}  // namespace entrain::trials
