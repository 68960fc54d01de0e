// Data-parallel training of a module under a strategy.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "entrain/graph/forward_watch.h"
#include "entrain/graph/gradient_hooks.h"
#include "entrain/plan/plan.h"
#include "entrain/sync/engine.h"
#include "entrain/trainer/agreement.h"
#include "entrain/trainer/context.h"
#include "entrain/trainer/partial_update.h"
#include "entrain/trainer/step_profile.h"

namespace entrain {

struct Options {
  std::string strategy = "allreduce";  // a builder's name or a strategy file
  uint64_t seed = 0;                   // of builders that draw
  // The next forward starts while later variables are still under way, and waits at the first
  // operation that reads one of them. Off: step() returns when all are updated.
  bool overlap_forward = true;
  // Gradients are scaled down to this norm over all variables; 0: as they are. Needs all of them before the
  // first update, so nothing overlaps with the next forward.
  double clip_norm = 0;
};

// Where the time went since the start, in seconds.
struct Times {
  double backward = 0;  // gradients being made
  double waited = 0;    // for gradients to arrive, in step() or in the forward after it
  double updated = 0;   // in the optimizer
};

// One rank's handle. All methods on one thread, the one that runs forward; the same calls in
// the same order on every worker. Errors: PeerError when another rank fails, naming it.
class Distributed {
 public:
  // Broadcasts rank 0's parameters and buffers. Module and optimizer outlive this. A job may have several, of
  // different modules, made in the same order on every worker; one where hosts only serve. Throws InputError
  // for parameters on several devices.
  Distributed(Context& context, torch::nn::Module& module, torch::optim::Optimizer& optimizer,
              Options options);
  ~Distributed();

  // Backward, synchronize, update. `loss`: the mean over this rank's batch; the update is that of the
  // mean over all workers' batches. The first call also captures G and settles the strategy.
  //
  // Gradients: what an earlier loss.backward() of the user's has left is added to that of `loss`, and counts
  // in the mean over the workers as `loss` does. So gradients are accumulated as ever:
  //   (loss(a) / 2).backward();  step(loss(b) / 2);
  // After step() no parameter has a gradient: zero_grad() and optimizer.step() are not needed, and harmless.
  // A parameter that no worker's loss depends on stays as it is, as ever (on a GPU: its gradient counts as
  // 0). Which parameters require a gradient is settled by the first step; Error when one does so later. What
  // backward throws ends the job.
  void step(const torch::Tensor& loss);

  // Waits until all updates of the last step are made: before reading parameters.
  void finish();

  // From the next step on. Rank 0's argument counts. The update stays the same.
  void switch_strategy(const strategy::Strategy& strategy);

  // Known after the first step.
  const graph::Graph& graph() const { return graph_; }
  // G with the times of this rank's last steps. Requires: two steps.
  graph::Graph profiled_graph() const;
  const strategy::Strategy& strategy() const { return strategy_; }
  const plan::Plan& plan() const { return engine_.plan(); }
  const Times& times() const { return times_; }
  int64_t steps() const { return step_; }

 private:
  void check_module() const;
  void check_frozen() const;
  void first_step(const torch::Tensor& loss);
  void backward(const torch::Tensor& loss);
  void settle(const strategy::Strategy& strategy);
  void send_missing();
  void share_accumulated(const std::vector<torch::Tensor>& variables) const;
  void update(size_t v, torch::Tensor gradient);
  void use(size_t v);
  double not_computing() const { return times_.waited + times_.updated; }
  void check_same_parameters();
  void broadcast_parameters();
  torch::Tensor shared_loss(const torch::Tensor& loss) const;

  Context& context_;
  torch::nn::Module& module_;
  Options options_;
  PartialUpdate updater_;
  graph::Graph graph_;
  strategy::Strategy strategy_;
  std::vector<torch::Tensor> variables_;                       // in G's order once it is known
  std::vector<std::pair<std::string, torch::Tensor>> frozen_;  // parameters that are no variables
  std::vector<bool> made_;  // by variable: backward has made its gradient in this step
  int64_t step_ = 0;
  bool in_backward_ = false;  // of step(), not one of the user's
  bool under_way_ = false;    // updates of the last step are missing
  Times times_;
  std::optional<StepProfile> profile_;
  sync::Engine engine_;
  std::unique_ptr<graph::GradientHooks> hooks_;
  std::unique_ptr<graph::ForwardWatch> watch_;
};

// The same as the constructor, in the words of the README.
std::unique_ptr<Distributed> distribute(Context& context, torch::nn::Module& module,
                                        torch::optim::Optimizer& optimizer, Options options = {});

}  // namespace entrain
