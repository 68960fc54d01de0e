// The asynchronous parameter server, with a bound on the staleness or without.
//
//   each step          x <- base(x)
//   every period       u = x - p;  c += u / l;  x = p = c       p: x as it was pulled last, l: the workers
//   then               wait while more than s exchanges ahead of the slowest; c is that of the wait's end
//
// u travels to the centre c, and c back: 2 B bytes per exchange of one worker. With period 1, s = 0 and a
// base that is linear in the gradient (sgd, momentum, nesterov) this is synchronous SGD with the mean
// gradient: all begin a step at the same c and the mean of their u is the u of the mean (up to the rounding
// of sums in the order of arrival). l is fixed: when workers are lost, the rest go on in smaller steps.
#include "entrain/optim/async_rules.h"
#include "entrain/optim/push_pull.h"

namespace entrain::optim {

std::unique_ptr<DistributedOptimizer> make_async_ps(const strategy::AsyncPs& rule, RuleWorker worker) {
  const double share = 1 / static_cast<double>(worker.ranks.size());
  return make_push_pull(rule.period, std::move(worker), share, rule.staleness.value_or(kAnyStaleness));
}

}  // namespace entrain::optim
