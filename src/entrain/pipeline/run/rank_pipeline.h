// A pipeline whose cells are ranks, on other hosts perhaps. One rank's part of it.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

#include "entrain/layers/layer.h"
#include "entrain/pipeline/run/engine.h"
#include "entrain/pipeline/run/options.h"
#include "entrain/pipeline/run/rank_mail.h"
#include "entrain/pipeline/run/worker.h"
#include "entrain/transport/transport.h"

namespace entrain::pipeline {

// All methods on one thread; the same calls in the same order on every rank of the pipeline. Errors:
// PeerError naming the rank that failed.
class RankPipeline : public Engine {
 public:
  // `ranks`: of this pipeline, by device; this rank is one of them. The model is the same on all of them (the
  // same parameters at the start), and each uses its own cells' part of it. Transport and model outlive this.
  RankPipeline(transport::Transport& transport, std::vector<int> ranks, layers::Sequence sequence,
               Options options, double timeout_s);

  // Every rank gives the same mini-batch (the
  // first cell reads its input, the last its target) and gets the loss.
  double run(const torch::Tensor& input, const torch::Tensor& target) override;

  std::vector<torch::Tensor> parameters() const override;
  std::vector<torch::Tensor> buffers() const;
  // Sums the gradients of tied parameters over the ranks that have them, so that all make the same update. To
  // be called after run(), and after replicas have been synchronized if there are any. Collective.
  void sum_tied();
  // False for a tied parameter that a lower rank of the pipeline has too: it counts there when norms are
  // summed or state is gathered.
  bool counts_here(const torch::Tensor& parameter) const;

  // Sum over the pipeline's ranks; the same everywhere.
  double sum(double value) const;

  std::vector<std::vector<Span>> spans() const override { return {worker_->spans()}; }
  const Schedule& schedule() const override { return schedule_; }
  const Cut& cut() const { return cut_; }
  int device() const { return device_; }

 private:
  struct Tied {
    size_t number;  // the same on every rank: its messages' tag
    torch::Tensor parameter;
    std::vector<int> with;  // ranks that have it, ascending
  };

  transport::Transport& transport_;
  std::vector<int> ranks_;
  int device_;
  layers::Sequence sequence_;
  Options options_;
  double timeout_s_;
  Cut cut_;
  Schedule schedule_;
  std::unique_ptr<RankMail> mail_;
  std::unique_ptr<Worker> worker_;
  std::vector<Tied> tied_;  // that this rank has
};

}  // namespace entrain::pipeline
