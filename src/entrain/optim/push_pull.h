// What DOWNPOUR and the asynchronous parameter server do alike: push what the base optimizer did, pull the
// centre.
//
//   each step          x <- base(x)
//   every period       u = x - p;  c += share u;  x = p = c     p: x as it was pulled last
//
// u travels to the centre c, and c back: 2 B bytes per exchange of one worker.
#pragma once

#include <memory>

#include "entrain/optim/centre.h"
#include "entrain/optim/distributed_optimizer.h"

namespace entrain::optim {

// `staleness`: exchanges that a worker may be ahead of the slowest, or kAnyStaleness (clocks.h).
std::unique_ptr<DistributedOptimizer> make_push_pull(int64_t period, RuleWorker worker, double share,
                                                     int64_t staleness);

}  // namespace entrain::optim
