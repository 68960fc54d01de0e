// Simulated iterations as a trace: a strategy is a process, a track one thread or more.
#pragma once

#include <string>

#include "entrain/base/trace.h"
#include "entrain/simulator/analytic/event_simulation.h"

namespace entrain::simulator {

class SimulationTrace {
 public:
  void add(const std::string& strategy, const SimulatedIteration& iteration);
  std::string document() const { return trace_.document(); }

 private:
  Trace trace_;
  int processes_ = 0;
};

}  // namespace entrain::simulator
