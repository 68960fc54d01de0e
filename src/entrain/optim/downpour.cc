// DOWNPOUR (Dean et al.: Large Scale Distributed Deep Networks, 2012), in its form that pushes what the base
// optimizer did.
//
//   each step          x <- base(x)
//   every period       u = x - p;  c += u;  x = p = c           p: x as it was pulled last
//
// u travels to the centre c, and c back: 2 B bytes per exchange of one worker. The worker waits for its own
// answer, and for nobody else.
#include "entrain/optim/async_rules.h"
#include "entrain/optim/push_pull.h"

namespace entrain::optim {

std::unique_ptr<DistributedOptimizer> make_downpour(const strategy::Downpour& rule, RuleWorker worker) {
  return make_push_pull(rule.period, std::move(worker), 1, kAnyStaleness);
}

}  // namespace entrain::optim
