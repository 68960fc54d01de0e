// What is not finite in the steps of one copy of a model: stops the job, or has the update skipped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "entrain/optim/finite.h"

namespace torch::nn {
class Module;
}

namespace entrain::train {

// For workers (or threads) that make updates of their own. One thread.
//
//   begin(step) ─▶ forward, backward ─▶ may_update(loss) ─▶ the update, or not ─▶ check_parameters()
class StepGuard {
 public:
  // `module` outlives it. `on_stop` (optional) hears the text of the error before it is thrown.
  StepGuard(int rank, NonFinite policy, const torch::nn::Module& module,
            std::function<void(const std::string&)> on_stop = nullptr);

  // Before forward, which changes batch norm's statistics.
  void begin(int64_t step);

  // With the gradients there. False: skip the update; buffers are what they were before forward. Throws Error
  // when the job is to stop.
  bool may_update(double loss);

  // Buffers as they were before forward. Requires: kSkip.
  void put_back_buffers();

  // Throws Error naming the first parameter that is not finite. `when`: "after its own update".
  void check_parameters(const char* when) const;
  // The same, when the caller has the parameters as one vector: one look at it in most cases.
  void check_parameters(const torch::Tensor& all, const char* when) const;

  int64_t skipped() const { return skipped_; }

 private:
  [[noreturn]] void stop(const std::string& what) const;

  const int rank_;
  const NonFinite policy_;
  const std::function<void(const std::string&)> on_stop_;
  optim::NamedTensors parameters_;
  std::vector<torch::Tensor> buffers_, kept_;  // kept: as they were before the step, when it may be skipped
  int64_t step_ = 0;                           // under way
  int64_t skipped_ = 0;
};

}  // namespace entrain::train
