// Changes the strategy of a job while it trains, and its shape where its model can be cut: the seam that
// strategy `auto` fills.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "entrain/graph/graph.h"
#include "entrain/strategy/strategy.h"

namespace entrain::trials {

// A step that rank 0 has made.
struct StepSeen {
  int64_t step;
  double seconds;        // from its start to the start of the next
  std::string strategy;  // id of the one it ran under
  bool first;            // under that strategy: it still waited for the messages of the one before
};

// Lives on rank 0, called on its training thread.
class StrategyAdvisor {
 public:
  virtual ~StrategyAdvisor() = default;
  // Called first, and once, where the strategies asked for may have a shape: what the job begins with.
  // `profile`: G with its layers' times. One without a shape: all layers on all ranks.
  virtual strategy::Strategy begin(const graph::Graph& profile) = 0;
  // After a step: a strategy to change to, or nothing. It takes effect one or two steps later: observe() is
  // told when. `profile`: G with the times of the last steps; not called after begin().
  virtual std::optional<strategy::Strategy> observe(const StepSeen& step,
                                                    const std::function<graph::Graph()>& profile) = 0;
};

}  // namespace entrain::trials
