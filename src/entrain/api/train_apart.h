// Training apart: each worker steps on its own copy of the parameters, and a rule pulls the copies together
// now and then.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "entrain/api/checkpoints.h"
#include "entrain/api/context.h"
#include "entrain/base/non_finite.h"
#include "entrain/strategy/rules.h"

namespace entrain {

using strategy::AsyncPs;
using strategy::Bmuf;
using strategy::Downpour;
using strategy::Easgd;
using strategy::EasgdAsync;
using strategy::LocalSgd;
using strategy::Lsgd;
using strategy::LsgdAsync;
using strategy::Parle;
using strategy::Rule;

struct ApartOptions {
  Rule rule = Lsgd{};
  uint64_t seed = 0;          // of rules that draw
  int64_t epoch_steps = 400;  // of one worker: Parle anneals by the epoch
  double clip_norm = 0;       // each worker's gradients are scaled down to this norm; 0: as they are
  // kSkip leaves out the worker's own update; parameters that are not finite end the job in any case.
  NonFinite on_nonfinite = NonFinite::kStop;
};

// One worker's handle. All methods on one thread, the one that runs forward. Synchronous rules: the same
// calls in the same order on every worker. Asynchronous ones (LsgdAsync, EasgdAsync, Downpour, AsyncPs): each
// worker at its own pace; the rules go on without a worker that is lost, unless it is rank 0, but `entrain
// launch` ends a program's ranks with the first that fails. A job has one such handle at a time. Errors:
// PeerError naming the rank.
class ApartWorker : public Handle {
 public:
  struct Impl;
  explicit ApartWorker(std::unique_ptr<Impl> impl);
  ~ApartWorker() override;

  // backward, this worker's own update by its optimizer, the rule's pull, an exchange when it is due.
  // Gradients are set to none afterwards.
  void step(const torch::Tensor& loss);

  // No more steps: completes exchanges that are under way.
  void finish();

  // After finish(): puts into this worker's model what the rule trains, the centre of rules that have one,
  // else the mean over the workers (with groups: of rank 0's). Synchronous rules: collective, and the same
  // everywhere, with the mean of the workers' buffers. Asynchronous rules: of use on rank 0, which keeps the
  // centre.
  void take_result();

  int64_t steps() const;
  int64_t exchanges() const;       // that this worker took part in
  double communication_s() const;  // it did not compute because of one

  // Synchronous rules only. Each worker writes a file of its own.
  void save(const std::filesystem::path& folder, int keep, int64_t step) override;
  std::optional<int64_t> resume(const std::filesystem::path& folder) override;

 private:
  std::unique_ptr<Impl> impl_;
};

// Broadcasts rank 0's parameters and buffers. `optimizer` is each worker's own and holds the module's
// parameters; both outlive the handle. Parameters become views of one vector: they stay the same tensor
// objects, but data pointers taken before do not count any more. Throws InputError naming the setting, or a
// parameter that is sparse or of another type or device than the others. The next step after resume() or a
// change of the learning rate goes by the optimizer's options as they are then.
std::unique_ptr<ApartWorker> train_apart(Context& context, torch::nn::Module& module,
                                         torch::optim::Optimizer& optimizer, ApartOptions options = {});

}  // namespace entrain
