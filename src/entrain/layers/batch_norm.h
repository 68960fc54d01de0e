// Batch norm whose running statistics can wait for the whole mini-batch.
#pragma once

#include <torch/torch.h>

#include <optional>

namespace entrain::layers {

// As torch::nn::BatchNorm2d, with the same names in a state dict. Deferred, it normalizes by the micro-batch,
// gathers count, sum and sum of squares, and moves the running statistics once, at commit(), as one pass of
// the whole mini-batch would:
//   mean = sum / n,  var = (squares / n - mean^2) n / (n - 1),  running += momentum (new - running)
// A recomputation (see pass.h) moves and gathers nothing. One thread at a time.
class BatchNorm2dImpl : public torch::nn::Module {
 public:
  explicit BatchNorm2dImpl(int64_t channels);

  torch::Tensor forward(const torch::Tensor& x);

  void defer(bool on) { deferred_ = on; }
  // Nothing gathered: does nothing.
  void commit();
  // Forgets what was gathered.
  void discard() { count_ = 0; }
  void reset_running_stats();

  torch::Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // none: the mean over all passes

 private:
  double share() const;  // of the newest statistics in the running ones

  bool deferred_ = false;
  double count_ = 0;
  torch::Tensor sum_, squares_;  // by channel, in double
};
TORCH_MODULE(BatchNorm2d);

// Of every batch norm (of this kind) in `module`.
void defer_batch_norm(torch::nn::Module& module, bool on);
void commit_batch_norm(torch::nn::Module& module);
void discard_batch_norm(torch::nn::Module& module);

}  // namespace entrain::layers
