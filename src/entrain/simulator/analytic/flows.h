// Messages as fluids that share resources max-min fairly.
//
// In each queue (messages over the same streams) only the most important is moving; moving messages share
// links and engines by progressive filling: the rate of every stream grows alike until a resource is full,
// those that use it stay there, the others grow on. A link that was idle first lets a burst pass.
#pragma once

#include <vector>

#include "entrain/simulator/analytic/demand.h"

namespace entrain::simulator {

struct Flow {
  const Demand* demand;
  int queue;
  int priority;  // lower goes first
  double bytes;
  double ready;      // when it may start
  double packing;    // seconds of each worker's engine: slices that do not lie in one piece are copied
  double begun = 0;  // out: when its first byte moved
  double ended = 0;  // out: when its last byte left
};

// Fills `begun` and `ended` of all.
void run_flows(std::vector<Flow>& flows, int queues, const Resources& resources);

}  // namespace entrain::simulator
