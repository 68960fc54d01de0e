// A job in cells whose shape rank 0's advisor may change between any two steps, and how those who hold the
// same layers synchronize: the same in `entrain train` and for programs.
#pragma once

#include <functional>

#include "entrain/parallel/shaped.h"
#include "entrain/trials/advised.h"

namespace entrain::trials {

// `strategy` with rank 0's shape, which every rank must know; all else, rank 0 tells those whom it concerns.
// Collective over the workers. Requires: on rank 0, it has a shape.
strategy::Strategy with_agreed_shape(job::Context& context, const strategy::Strategy& strategy, int layers);

// One per worker; the same calls in the same order on all of them. Context and advisor outlive it.
//
//   begin() ─▶ step ─▶ before_step() ─▶ step ─▶ after_step() ─▶ before_step() ─▶ ...
class AdvisedShapes {
 public:
  // `advisor`: null on other ranks than 0. `layers`: of the model. `stream`: see StepControl.
  AdvisedShapes(job::Context& context, StrategyAdvisor* advisor, int layers, int stream = 0)
      : context_(context), advisor_(advisor), layers_(layers), advised_(context, advisor, stream) {}

  // Collective: the shape to begin with. `profile`: G with its layers' times; called on rank 0, for which the
  // others wait.
  strategy::Shape begin(const std::function<graph::Graph()>& profile);

  // As Advised::before_step(): after kSwitch, `shaped` may have another shape.
  job::Order::Kind before_step(parallel::Shaped& shaped, bool stop, bool last);
  // As Advised::after_step().
  void after_step(const parallel::Shaped& shaped, int64_t step, double seconds);
  void end() { advised_.end(); }

 private:
  strategy::Strategy with_shape(strategy::Strategy strategy) const;

  job::Context& context_;
  StrategyAdvisor* advisor_;
  int layers_;
  Advised advised_;
};

}  // namespace entrain::trials
