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
  // Count, sums and sums of squares, in double: those of several replicas of the layer add up.
  torch::Tensor gathered() const;
  void set_gathered(const torch::Tensor& gathered);
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

// Whether another batch norm (torch's own, a script's) is in `module`: each pass moves its statistics, and
// they cannot wait.
bool has_undeferrable_statistics(const torch::nn::Module& module);

// Whether a batch norm of any kind is in `module`: what it computes of an example depends on the others of
// the micro-batch.
bool mixes_examples(const torch::nn::Module& module);

// Of every batch norm (of this kind) in `module`.
void defer_batch_norm(torch::nn::Module& module, bool on);
void commit_batch_norm(torch::nn::Module& module);
void discard_batch_norm(torch::nn::Module& module);

// What all of them in `module` have gathered, one after the other; empty where there are none.
torch::Tensor gathered_statistics(torch::nn::Module& module);
void set_gathered_statistics(torch::nn::Module& module, const torch::Tensor& gathered);

}  // namespace entrain::layers
