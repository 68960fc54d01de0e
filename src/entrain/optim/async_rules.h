// The asynchronous rules, as make_rule picks them.
//
// Making one has the transport tolerate losses from then on. The rule at the centre's rank, when destroyed,
// waits for the other workers to be destroyed too, or lost.
#pragma once

#include <memory>

#include "entrain/optim/distributed_optimizer.h"

namespace entrain::optim {

std::unique_ptr<DistributedOptimizer> make_async_ps(const strategy::AsyncPs& rule, RuleWorker worker);
std::unique_ptr<DistributedOptimizer> make_downpour(const strategy::Downpour& rule, RuleWorker worker);
std::unique_ptr<DistributedOptimizer> make_easgd_async(const strategy::EasgdAsync& rule, RuleWorker worker);
std::unique_ptr<DistributedOptimizer> make_lsgd_async(const strategy::LsgdAsync& rule, RuleWorker worker);

}  // namespace entrain::optim
