// One update of all workers through pipelines: each replica's passes, then what they sum, then the optimizer.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/layers/layer.h"
#include "entrain/models/model.h"
#include "entrain/optim/finite.h"
#include "entrain/parallel/replica_sync.h"
#include "entrain/pipeline/run/engine.h"
#include "entrain/pipeline/run/rank_pipeline.h"
#include "entrain/strategy/pipeline.h"

namespace entrain::parallel {

// Which pipeline this rank is of, and which device of it.
struct PipelinePlace {
  bool ranks = false;  // a device is a rank; else a thread of each rank
  int replica = 0, replicas = 1;
  int device = 0;             // of this rank; threads: 0
  std::vector<int> pipeline;  // ranks of this pipeline, by device
  std::vector<int> twins;     // ranks with the same cells as this one
};

// K consecutive ranks are one pipeline where cells are ranks. Throws InputError where K does not divide the
// ranks, and on a cluster with hosts that only serve.
PipelinePlace place_of(const job::Context& context, const strategy::Pipeline& pipeline);

struct PipelinedOptions {
  strategy::Pipeline pipeline;
  std::string strategy = "allreduce";  // of the replicas
  std::string device = "cpu";          // or cuda, where cells are threads
  uint64_t seed = 0;                   // of dropout, and of builders that draw
  double clip_norm = 0;                // of all cells' gradients together; 0: as they are
};

// One per rank. All methods on one thread; the same calls in the same order on every rank of the job. Errors:
// PeerError naming the rank that failed, Error for what is not finite, naming it.
class Pipelined {
 public:
  // `module` holds `sequence`'s parameters, the same values on every rank, and `sample` is one mini-batch, on
  // which layers are timed where no balance is given. Cells move to their devices here, so make the optimizer
  // of the module's parameters, and call use(), afterwards. All of them outlive this. Throws InputError.
  Pipelined(job::Context& context, torch::nn::Module& module, layers::Sequence sequence,
            const models::Batch& sample, PipelinedOptions options);

  // Builds the engines; `steps`: done already. `optimizer`'s state may have been loaded; on other ranks than
  // 0 the parameters of others' cells are given back from now on.
  void use(torch::optim::Optimizer& optimizer, int64_t steps);

  // Passes, sums over replicas and tied parameters, clipping. Every rank of a pipeline gives the same batch.
  // Returns the loss of this pipeline. The gradients are then those of the mean over all replicas.
  double run(const torch::Tensor& input, const torch::Tensor& target);
  // The optimizer's update with these gradients.
  void update();

  // Collective: brings the whole model and its optimizer's state to rank 0.
  void gather();

  const PipelinePlace& place() const { return place_; }
  const std::vector<int>& balance() const { return balance_; }
  const pipeline::Engine& engine() const { return *engine_; }
  double pass_seconds() const { return pass_seconds_; }  // of the last run(), until the passes were done
  std::string strategy_id() const { return sync_ ? sync_->strategy_id() : "pipeline"; }
  int64_t steps() const { return step_; }

 private:
  void clip();

  job::Context& context_;
  torch::nn::Module& module_;
  layers::Sequence sequence_;
  PipelinedOptions options_;
  PipelinePlace place_;
  std::vector<int> balance_;
  torch::optim::Optimizer* optimizer_ = nullptr;
  int64_t step_ = 0;
  double pass_seconds_ = 0;
  std::unique_ptr<pipeline::Engine> engine_;
  pipeline::RankPipeline* rank_engine_ = nullptr;  // engine_, when cells are ranks
  optim::NamedTensors named_;                      // engine_'s parameters
  std::unique_ptr<ReplicaSync> sync_;              // with replicas
};

}  // namespace entrain::parallel
