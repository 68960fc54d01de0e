// Training apart: each worker steps on its own copy of the parameters, and a rule pulls the copies together.
//
//   forward, backward ──▶ step(loss): the base optimizer's update, the rule's pull, an exchange when it is
//   due
//
// One rule per file, the formula above the code. x is this worker's parameters, l the number of workers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "entrain/optim/rule_worker.h"
#include "entrain/strategy/rules.h"

namespace entrain::optim {

// What happened, for the run's records. Filled by the rule, read between steps.
struct Journal {
  struct Lead {
    int64_t step;
    int local;   // rank of the group's leader
    int global;  // rank of the leader of all; -1: not chosen at this step
  };
  std::vector<Lead> leaders;  // LSGD: one per exchange
  int64_t exchanges = 0;      // this worker took part in
  int64_t greatest_lead =
      0;  // async-ps, where the centre is: exchanges that a worker was ahead of the slowest
  double communication_s =
      0;  // this worker did not compute because of an exchange: waiting, copying, pulling
};

// Named tensors (counters as int64 scalars): what a checkpoint needs besides x and the base optimizer's
// state.
using State = std::vector<std::pair<std::string, torch::Tensor>>;

// All methods on one thread, the one that runs forward. Synchronous rules: the same calls in the same order
// on every worker. Errors: PeerError naming the rank; asynchronous rules go on without a worker that is lost,
// unless it keeps the centre.
class DistributedOptimizer {
 public:
  virtual ~DistributedOptimizer() = default;

  // One iteration. Requires: the parameters hold gradients of this worker's batch, whose mean loss is `loss`
  // (one that is not finite keeps LSGD from choosing this worker as the leader while it is in the window).
  virtual void step(double loss) = 0;

  // Completes exchanges under way. Before a checkpoint and at the end.
  virtual void finish() = 0;

  // This worker takes no more steps, and nobody need wait for it; after finish(). What it knows can still be
  // read. Does nothing under rules whose other workers do not wait.
  virtual void leave() {}

  // The parameters to test with, a copy: the centre of rules that have one, else the mean over workers (of
  // each worker's own group when there are groups). Synchronous rules: collective. Asynchronous rules: as far
  // as this worker knows; of use on the rank that keeps the centre.
  virtual torch::Tensor test_parameters() = 0;

  // The parameters of the leader (of this worker's group) that this worker is pulled to: not a copy, until
  // the next step. Undefined: the rule has no leader, or none has been followed yet.
  virtual torch::Tensor leader_parameters() const { return {}; }

  // Resume is exact for synchronous rules: restore(state()) on each worker, x and base restored by the
  // caller. Requires: finish() was called.
  virtual State state() const = 0;
  virtual void restore(const State& state) = 0;

  const Journal& journal() const { return journal_; }

 protected:
  Journal journal_;
};

// Requires: settings that the rule may have (see strategy::validate); of asynchronous rules, the first on
// this transport.
std::unique_ptr<DistributedOptimizer> make_rule(const strategy::Rule& rule, RuleWorker worker);

}  // namespace entrain::optim
