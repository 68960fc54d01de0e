// One update of replicas whose cells are threads: each rank has the whole model and runs its own pipeline.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/layers/layer.h"
#include "entrain/optim/finite.h"
#include "entrain/parallel/cell_training.h"
#include "entrain/parallel/replica_sync.h"
#include "entrain/pipeline/plan/pipeline.h"
#include "entrain/pipeline/run/thread_pipeline.h"
#include "entrain/strategy/builders/request.h"

namespace entrain::parallel {

// Whether the pipeline's devices are ranks of the job; else they are threads of each rank.
bool devices_are_ranks(const job::Context& context, const strategy::Pipeline& pipeline);

struct ThreadedOptions {
  strategy::Pipeline pipeline;
  strategy::Request strategy = "allreduce";  // of the ranks
  std::string device = "cpu";                // or cuda
  int64_t examples = 0;                      // per update, of all ranks together
  uint64_t seed = 0;                         // of dropout, and of builders that draw
  double clip_norm = 0;                      // of all gradients together; 0: as they are
};

class Threaded final : public CellTraining {
 public:
  // `module` holds `sequence`'s parameters, the same values on every rank. Layers are timed on some of
  // `examples` where no balance is given. Cells move to their devices here, so make the optimizer of the
  // module's parameters, and call use(), afterwards. All of them outlive this. Throws InputError.
  Threaded(job::Context& context, torch::nn::Module& module, layers::Sequence sequence,
           const Examples& examples, ThreadedOptions options);

  // `steps`: done already. `optimizer`'s state may have been loaded.
  void use(torch::optim::Optimizer& optimizer, int64_t steps);

  double run(const Examples& examples) override;
  void set_examples(int64_t examples) override;
  void update() override;
  void compare() override;
  void gather() override {}  // every rank has it
  Passes passes() const override { return {engine_->spans(), pass_seconds_}; }
  std::string strategy_id() const override { return sync_ ? sync_->strategy_id() : "pipeline"; }

  const std::vector<int>& balance() const { return balance_; }

 private:
  job::Context& context_;
  torch::nn::Module& module_;
  layers::Sequence sequence_;
  ThreadedOptions options_;
  int64_t own_;  // examples of this rank
  std::vector<int> balance_;
  torch::optim::Optimizer* optimizer_ = nullptr;
  int64_t step_ = 0;
  double pass_seconds_ = 0;
  std::unique_ptr<pipeline::ThreadPipeline> engine_;
  optim::NamedTensors named_;          // engine_'s parameters
  std::unique_ptr<ReplicaSync> sync_;  // with several ranks
};

}  // namespace entrain::parallel
