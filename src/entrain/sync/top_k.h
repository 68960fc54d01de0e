// Top-k: each worker sends only the largest elements of its gradient to the others, and keeps the rest for
// the next step (error feedback).
//
//   A = gradient + E,   sent = the largest |A|,   E = A - sent,   gradient = sum of all that was sent
#pragma once

#include <vector>

#include "entrain/sync/sparse.h"

namespace entrain::sync {

// All slices of the message are one row of elements, exchanged as rows of one number each.
class TopK : public SparseAllGather {
 public:
  TopK(const plan::Message& message, transport::Transport& transport, EventLoop& loop);

 private:
  Rows rows_of(const std::vector<torch::Tensor>& gradients) override;
  void finished() override;

  torch::Tensor error_;                   // A of the step, less what was sent
  std::vector<torch::Tensor> gradients_;  // of the step: the slices
};

}  // namespace entrain::sync
