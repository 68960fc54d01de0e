// Changes the strategy of a job while it trains: the seam that `--strategy auto` fills.
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
  // A strategy to change to, or nothing. It takes effect one or two steps later: observe() is told when.
  // `profile`: G with the times of the last steps.
  virtual std::optional<strategy::Strategy> observe(const StepSeen& step,
                                                    const std::function<graph::Graph()>& profile) = 0;
};

}  // namespace entrain::trials
