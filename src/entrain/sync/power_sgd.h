// PowerSGD (Vogels, Karimireddy, Jaggi 2019): a gradient matrix as the product of two thin ones.
//
//   A = M + E                       the gradient [n, m] and what was not sent before
//   P = A Q,   summed over workers, made orthonormal          [n, r]   first run
//   Q = A^T P, summed over workers                            [m, r]   second run
//   M = P Q^T,   E = A - P (A^T P)^T                          Q is kept: the next step starts from it
//
// All workers hold the same P and Q bit by bit, so the same M. Slices that would not shrink (biases) travel
// with P as they are.
#pragma once

#include <memory>
#include <vector>

#include "entrain/collective/executor.h"
#include "entrain/sync/synchronizer.h"

namespace entrain::sync {

class PowerSgd : public Synchronizer {
 public:
  PowerSgd(const plan::Message& message, const graph::Graph& graph, transport::Transport& transport,
           EventLoop& loop);
  void start(transport::Tag tag, std::vector<torch::Tensor> gradients, Done done) override;
  int waiting_for() const override { return run_ ? run_->waiting_for() : -1; }

 private:
  // One slice; `q` and `error` live from step to step. Without `q` it travels as it is.
  struct Part {
    plan::Matrix shape;
    torch::Tensor q, error;  // [m, r], [n, m]
    torch::Tensor gradient;  // of the step: the slice, [n, m], not always contiguous
    torch::Tensor sum;       // of the step: gradient + error
    torch::Tensor sent;      // of the step: its place in the buffer
  };

  torch::Tensor first_factors();
  torch::Tensor second_factors();
  void finish();
  void run(torch::Tensor flat, transport::Tag tag, std::function<void()> then);

  const plan::Message& message_;
  transport::Transport& transport_;
  EventLoop& loop_;
  collective::Program program_;
  std::vector<Part> parts_;
  std::vector<torch::Tensor> p_;  // of the step, by part: orthonormal
  torch::Tensor flat_;            // what is under way
  std::shared_ptr<collective::Run> run_;
  Done done_;
};

}  // namespace entrain::sync
