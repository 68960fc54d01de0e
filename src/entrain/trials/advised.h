// A handle whose strategy rank 0's advisor may change between any two steps, whichever kind of handle it is.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "entrain/job/step_control.h"
#include "entrain/trials/strategy_advisor.h"

namespace entrain::trials {

// One per worker; the same calls in the same order on all of them. Context and advisor outlive it.
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

  // What the advisor wants already, before there is a step.
  void want(strategy::Strategy strategy) { wanted_ = std::move(strategy); }

  // What comes now: kGo, kStop, or kSwitch when `change` has just been called, with what the advisor wants;
  // on other ranks than 0, with an empty strategy. Other arguments as those of StepControl::next().
  using Change = std::function<void(const strategy::Strategy&)>;
  job::Order::Kind before_step(const Change& change, bool stop, bool last);

  // `seconds`: of the step that was made, whose number is `step`, under the strategy of that id. `profile`:
  // as StrategyAdvisor::observe(). Requires: it is not the handle's first.
  void after_step(int64_t step, double seconds, const std::string& strategy,
                  const std::function<graph::Graph()>& profile);

  // No more steps, though nobody said `last`: takes the order for the next one. Throws PeerError.
  void end() { control_.end(); }

 private:
  StrategyAdvisor* advisor_;
  int rank_;
  job::StepControl control_;
  std::optional<strategy::Strategy> wanted_;  // by the advisor
  bool announced_ = false;                    // that change
  bool changed_ = false;                      // before the step under way
};

}  // namespace entrain::trials
