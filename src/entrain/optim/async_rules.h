// The asynchronous rules, as make_rule picks them.
//
// Making one has the transport tolerate losses from then on. The rule at the centre's rank, when destroyed,
// waits for the other workers to be destroyed too, or lost.
#pragma once

#include <memory>

#include "entrain/optim/distributed_optimizer.h"

namespace entrain::optim {

std::unique_ptr<DistributedOptimizer> make_async_ps(const strategy::Optimizer& settings, Worker worker);
std::unique_ptr<DistributedOptimizer> make_downpour(const strategy::Optimizer& settings, Worker worker);
std::unique_ptr<DistributedOptimizer> make_easgd_async(const strategy::Optimizer& settings, Worker worker);
std::unique_ptr<DistributedOptimizer> make_lsgd_async(const strategy::Optimizer& settings, Worker worker);

}  // namespace entrain::optim
