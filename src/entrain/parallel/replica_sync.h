// Gradients of a pipeline's replicas, synchronized by a data-parallel strategy of their own.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/strategy/builders/request.h"
#include "entrain/sync/engine.h"
#include "entrain/transport/group_transport.h"

namespace entrain::parallel {

// The replicas of one cell (or of a whole pipeline of threads) are a job of their own: their ranks, their
// hosts, their variables. One a rank; the same calls in the same order on all of `ranks`.
class ReplicaSync {
 public:
  // `ranks`: with the same variables as this one, ascending, itself too. A file that is asked for is of a
  // model that has these variables. `named`: outlive this.
  ReplicaSync(job::Context& context, std::vector<int> ranks, strategy::Request request, uint64_t seed,
              std::vector<std::pair<std::string, torch::Tensor>> named);

  // Sums every variable's gradient over the replicas. Requires: gradients are there (a missing one counts as
  // zero).
  void sum(int64_t step);

  const plan::Plan& plan() const { return engine_->plan(); }  // after the first sum()
  const std::string& strategy_id() const { return id_; }

 private:
  void settle();

  job::Context& context_;
  std::vector<int> ranks_;
  strategy::Request request_;
  uint64_t seed_;
  std::vector<std::pair<std::string, torch::Tensor>> named_;
  std::string id_;
  transport::GroupTransport transport_;
  std::unique_ptr<sync::Engine> engine_;  // after the first backward: which gradients are sparse
};

}  // namespace entrain::parallel
