// Data-parallel training of a module under a strategy.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "entrain/graph/forward_watch.h"
#include "entrain/graph/gradient_hooks.h"
#include "entrain/job/agreement.h"
#include "entrain/job/context.h"
#include "entrain/optim/finite.h"
#include "entrain/parallel/options.h"
#include "entrain/parallel/step_profile.h"
#include "entrain/parallel/updater.h"
#include "entrain/plan/assignment.h"
#include "entrain/plan/plan.h"
#include "entrain/strategy/builders/request.h"
#include "entrain/sync/engine.h"

namespace entrain::parallel {

using Options = BasicOptions<strategy::Request>;

// One rank's handle. All methods on one thread, the one that runs forward; the same calls in the same order
// on every worker. Errors: PeerError when another rank fails, naming it.
//
// Trained are the module's parameters that require a gradient and what else the optimizer holds, as they are
// at each step: layers, groups and parameters that are added, frozen or unfrozen meanwhile count from then
// on, on all workers at once.
class Distributed {
 public:
  // Broadcasts rank 0's parameters and buffers. Module and optimizer outlive this; without an optimizer there
  // is backward(), but no step(). A job may have several handles, made in the same order on every worker.
  // Throws InputError for parameters on several devices.
  Distributed(job::Context& context, torch::nn::Module& module, torch::optim::Optimizer& optimizer,
              Options options)
      : Distributed(context, module, &optimizer, std::move(options)) {}
  Distributed(job::Context& context, torch::nn::Module& module, Options options)
      : Distributed(context, module, nullptr, std::move(options)) {}
  ~Distributed();

  // The quick way: backward, synchronize, update. `loss`: the mean over this rank's batch; the update is that
  // of the mean over all workers' batches, by the options that the optimizer has now. It is what
  //   backward(loss); optimizer.step(); zero_grad()
  // would be, with gradients set to none as libtorch 2 does it, but updates parameters while others are still
  // under way. Gradients that were there before are added to those of `loss`, as in libtorch: another
  // module's backward may have left some, so zero_grad() belongs where it always did.
  void step(const torch::Tensor& loss);

  // DistributedDataParallel's way: leaves the mean gradients of all workers in grad(), the same on each. Clip
  // them, log them, step any optimizer, zero them, as ever. A second backward() adds to what is there. A
  // parameter that no worker's loss depends on has no gradient afterwards, unless it had one before.
  // What backward throws ends the job.
  void backward(const torch::Tensor& loss, bool retain_graph = false, bool create_graph = false);

  // After a backward of your own: replaces the gradients by their means over all workers.
  void average_gradients();

  // Which of an update's examples this rank computes. Requires: Options::examples.
  plan::MicroBatch range() const { return range_; }

  // With overlap_forward: waits until all updates of the last step are made.
  void finish();

  // From the next step on. Rank 0's argument counts. The update stays the same. When other parameters are
  // trained than before, Options::strategy counts again.
  void switch_strategy(const strategy::Strategy& strategy);

  // Known after the first step.
  const graph::Graph& graph() const { return graph_; }
  // Collective over the workers, between two steps: makes the updates that are missing, and throws Error
  // naming the ranks whose parameters or plan are not those of the others (compared_state.h).
  void compare();

  // G with the times of this rank's last steps. Requires: is_profiled(), which is so from two steps on.
  bool is_profiled() const { return profile_ && profile_->steps() > 0; }
  graph::Graph profiled_graph() const;
  const strategy::Strategy& strategy() const { return strategy_; }
  const plan::Plan& plan() const { return engine_.plan(); }
  const Times& times() const { return times_; }
  int64_t steps() const { return step_; }
  int64_t skipped_steps() const { return skipped_; }  // by NonFinite::kSkip

 private:
  Distributed(job::Context& context, torch::nn::Module& module, torch::optim::Optimizer* optimizer,
              Options options);
  void check_rank() const;
  void check_devices() const;
  void take_range();
  void check_whole(const strategy::Shape& shape) const;
  bool settled(const graph::NamedTensors& trained) const;
  void settle_model(graph::Capture captured, const std::vector<size_t>& ready);
  void settle_strategy(strategy::Strategy strategy);
  void watch_gradients();

  void synchronize(const torch::Tensor& loss, bool retain_graph, bool create_graph);
  void first_backward(const graph::NamedTensors& trained, const torch::Tensor& loss, bool retain_graph,
                      bool create_graph);
  void begin();
  void run_backward(const torch::Tensor& loss, bool retain_graph, bool create_graph);
  void made(size_t v);
  void send_rest();
  void share_accumulated(const graph::NamedTensors& tensors) const;
  void synchronize_buffers();

  void watch_forward();
  bool as_they_arrive() const;
  bool is_unused(size_t v, const torch::Tensor& gradient) const;
  void take_all(const std::function<void(size_t, torch::Tensor)>& take);
  void keep(size_t v, torch::Tensor gradient);
  void update(size_t v, torch::Tensor gradient);
  void update_together();
  void use(size_t v);
  void complete();
  void check_gradient(size_t v, const torch::Tensor& gradient);
  void check_loss(const torch::Tensor& loss);
  void check_last_loss();
  [[noreturn]] void stop_for(const std::string& what, int64_t step);
  double not_computing() const { return times_.waited + times_.updated; }

  job::Context& context_;
  torch::nn::Module& module_;
  torch::optim::Optimizer* optimizer_;
  Options options_;
  int handle_;
  plan::MicroBatch range_{0, 0};
  double divisor_ = 1;  // of this rank's loss: the sum of all workers' is the mean over examples
  std::optional<Updater> updater_;
  graph::Graph graph_;
  strategy::Strategy strategy_;
  std::vector<torch::Tensor> variables_;                // in G's order once it is known
  std::unordered_set<const c10::TensorImpl*> settled_;  // those
  std::vector<bool> made_;      // by variable: this rank has a gradient of it in this step
  bool several_times_ = false;  // backward makes some gradient in several parts: all are sent after it
  int64_t step_ = 0;
  int64_t skipped_ = 0;
  bool in_backward_ = false;  // of ours, not one of the user's
  bool under_way_ = false;    // updates of the last step are missing
  std::string not_finite_;    // of the step under way: the first such gradient
  torch::Tensor last_loss_;   // that nobody has looked at yet
  int64_t loss_step_ = 0;     // its step
  Times times_;
  std::optional<StepProfile> profile_;
  sync::Engine engine_;
  std::unique_ptr<graph::GradientHooks> hooks_;
  std::unique_ptr<graph::ForwardWatch> watch_;
};

// The same as the constructor, in the words of the README.
std::unique_ptr<Distributed> distribute(job::Context& context, torch::nn::Module& module,
                                        torch::optim::Optimizer& optimizer, Options options = {});
std::unique_ptr<Distributed> distribute(job::Context& context, torch::nn::Module& module,
                                        Options options = {});

}  // namespace entrain::parallel
