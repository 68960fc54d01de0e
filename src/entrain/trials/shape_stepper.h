// Steps of a job in any shape, made for their time: what is learned does not matter, so every rank keeps the
// whole model and nothing moves from one shape to the next.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "entrain/job/context.h"
#include "entrain/models/model.h"
#include "entrain/parallel/shaped.h"

namespace entrain::trials {

struct ShapeStepperOptions {
  int64_t examples = 0;  // per update, of all ranks together
  uint64_t seed = 0;
  double slowdown = 0;  // of this rank's passes (worker.h)
};

// One per rank that trains. Same calls in the same order on every such rank, on one thread.
class ShapeStepper {
 public:
  // Makes a first step under `first`, and so settles G. `model`: a sequence of layers, not used elsewhere.
  ShapeStepper(job::Context& context, std::shared_ptr<models::Model> model, const strategy::Shape& first,
               const ShapeStepperOptions& options);

  void step();
  // Requires: it has a shape, the same on every rank; all else is rank 0's.
  void switch_strategy(const strategy::Strategy& strategy);

 private:
  void expect_passes();

  job::Context& context_;
  std::shared_ptr<models::Model> model_;
  torch::optim::SGD optimizer_;
  ShapeStepperOptions options_;
  parallel::Shaped shaped_;
  std::map<std::pair<int64_t, int64_t>, models::Batch> batches_;  // by first example and count
};

}  // namespace entrain::trials
