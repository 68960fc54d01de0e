// Tests parameters on held-out data, beside the model that trains.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

#include "entrain/data/data.h"
#include "entrain/models/model.h"

namespace entrain::train {

class Examiner {
 public:
  struct Verdict {
    double loss = 0;    // mean over examples
    double error = -1;  // share got wrong; < 0: no classifier
  };

  // Makes a second model of that name. `data` outlives it. `batch`: examples of an update that a
  // recomputation of statistics takes at once.
  Examiner(const std::string& model, torch::Device device, data::Data& data, int64_t batch);

  bool has_batch_norm() const { return has_batch_norm_; }

  // `parameters`: all, one after the other (see optim/rule_worker.h). Batch norm's statistics are recomputed
  // from `batches` training batches from `position` on; `batches` 0: taken from `buffers`, in the model's
  // order.
  Verdict examine(const torch::Tensor& parameters, int64_t batches, int64_t position,
                  const std::vector<torch::Tensor>& buffers);
  // The same for a model's parameters() as they are, on any device.
  Verdict examine(const std::vector<torch::Tensor>& parameters, int64_t batches, int64_t position,
                  const std::vector<torch::Tensor>& buffers);

 private:
  void recompute_statistics(int64_t batches, int64_t position);

  std::shared_ptr<models::Model> model_;
  torch::Tensor x_;  // model_'s parameters
  data::Data& data_;
  const int64_t batch_;
  bool has_batch_norm_ = false;
};

}  // namespace entrain::train
