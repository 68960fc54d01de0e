// Data-parallel training of a module under a strategy.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "entrain/api/checkpoints.h"
#include "entrain/api/context.h"
#include "entrain/api/strategies.h"
#include "entrain/parallel/options.h"

namespace entrain {

using parallel::Buffers;
using parallel::Times;
using Options = parallel::BasicOptions<std::string>;

// Examples [begin, begin + count) of an update.
struct ExampleRange {
  int64_t begin = 0;
  int64_t count = 0;
};

// One rank's handle. All methods on one thread, the one that runs forward; the same calls in the same order
// on every worker. Errors: PeerError when another rank fails, naming it.
//
// Trained are the module's parameters that require a gradient and what else the optimizer holds, as they are
// at each step: layers, groups and parameters that are added, frozen or unfrozen meanwhile count from then
// on, on all workers at once.
//
// With Options::strategy "auto" it tunes while it trains: the first steps run under `allreduce`, then single
// steps under others, each of which makes the same update; then the fastest stays. Steps are compared by
// their time, so an iteration should have one step() or one backward().
class Distributed : public Handle {
 public:
  struct Impl;
  explicit Distributed(std::unique_ptr<Impl> impl);
  ~Distributed() override;

  // The quick way: backward, synchronize, update. `loss`: the mean over this rank's batch; the update is that
  // of the mean over all workers' batches, by the options that the optimizer has now. With Options::examples
  // it is that of the mean over the update's examples. It is what
  //   backward(loss); optimizer.step(); zero_grad()
  // would be, with gradients set to none as libtorch 2 does it, but updates parameters while others are still
  // under way. Gradients that were there before are added to those of `loss`, as in libtorch.
  void step(const torch::Tensor& loss);

  // DistributedDataParallel's way: leaves the mean gradients of all workers in grad(), the same on each. Clip
  // them, log them, step any optimizer, zero them, as ever. A second backward() adds to what is there. A
  // parameter that no worker's loss depends on has no gradient afterwards, unless it had one before.
  void backward(const torch::Tensor& loss, bool retain_graph = false, bool create_graph = false);

  // After a backward of your own: replaces the gradients by their means over all workers.
  void average_gradients();

  // Which of an update's examples this rank computes, by its share of them. Requires: Options::examples (else
  // InputError).
  ExampleRange range() const;

  // With Options::overlap_forward: waits until all updates of the last step are made.
  void finish();

  // From the next step on. Rank 0's argument counts. The update stays the same. Requires: one step was made,
  // and the strategy is not "auto" (else InputError).
  void switch_strategy(const Strategy& strategy);

  // Known after the first step.
  Graph graph() const;            // with the times of the last steps, once two calls of step() were made
  Strategy strategy() const;      // the one in use
  Times times() const;            // where this rank's time went
  int64_t steps() const;          // made by this handle
  int64_t skipped_steps() const;  // by NonFinite::kSkip

  void save(const std::filesystem::path& folder, int keep, int64_t step) override;
  std::optional<int64_t> resume(const std::filesystem::path& folder) override;

 private:
  std::unique_ptr<Impl> impl_;
};

// Broadcasts rank 0's parameters and buffers. Module and optimizer outlive the handle; without an optimizer
// there is backward(), but no step(). A job may have several handles, made in the same order on every worker.
// Throws InputError for parameters on several devices.
std::unique_ptr<Distributed> distribute(Context& context, torch::nn::Module& module,
                                        torch::optim::Optimizer& optimizer, Options options = {});
std::unique_ptr<Distributed> distribute(Context& context, torch::nn::Module& module, Options options = {});

}  // namespace entrain
