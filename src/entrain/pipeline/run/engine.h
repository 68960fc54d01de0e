// A pipeline that can be run: what its two kinds have in common.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "entrain/pipeline/plan/schedule.h"
#include "entrain/pipeline/plan/span.h"

namespace entrain::pipeline {

class Engine {
 public:
  virtual ~Engine() = default;

  // Forward and backward of one mini-batch: adds to the parameters' gradients those of its mean loss, and
  // returns that loss.
  virtual double run(const torch::Tensor& input, const torch::Tensor& target) = 0;

  // Of the cells that are here, each once, those they borrow too.
  virtual std::vector<torch::Tensor> parameters() const = 0;

  // Of the last step, by device that is here.
  virtual std::vector<std::vector<Span>> spans() const = 0;

  virtual const Schedule& schedule() const = 0;

  // Steps done; the next one's number decides its random numbers.
  int64_t steps() const { return step_; }
  void set_steps(int64_t steps) { step_ = steps; }

 protected:
  int64_t step_ = 0;
};

}  // namespace entrain::pipeline
