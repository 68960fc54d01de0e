// Which tensors autograd keeps for backward, known without looking into its graph (libtorch 1.13 shows no
// saved tensor to C++).
#pragma once

#include <ATen/record_function.h>
#include <torch/types.h>

#include <memory>
#include <set>
#include <vector>

namespace entrain::pipeline {

// While it lives: watches this thread's differentiable operations, and notes the inputs and outputs that
// their derivatives are known to need (torch's derivatives.yaml; the table is in the source). A storage
// counts once, however many operations need it, and whatever views of it there are. Operations that the table
// does not name (sums, views, concatenations, ...) count nothing. One at a time on a thread.
class SavedTensors {
 public:
  SavedTensors();
  ~SavedTensors();
  SavedTensors(const SavedTensors&) = delete;
  SavedTensors& operator=(const SavedTensors&) = delete;

  // Never counted: parameters are there anyway.
  void ignore(const torch::Tensor& tensor);

  // Bytes of what was noted and not taken yet, but for `except`, which stays to be taken.
  int64_t take_bytes(const torch::Tensor& except);

 private:
  struct Operation;
  static std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& op);
  static void end(const at::RecordFunction& op, at::ObserverContext* context);

  void note(const torch::Tensor& tensor);

  at::CallbackHandle handle_ = 0;
  std::vector<torch::Tensor> noted_;  // not taken yet; in order
  std::vector<torch::Tensor> held_;   // all: an address must not serve twice
  std::set<const void*> known_;       // storages noted or ignored
};

}  // namespace entrain::pipeline
