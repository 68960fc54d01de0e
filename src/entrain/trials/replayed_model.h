// A model whose layers sleep for as long as a profile says instead of computing, on activations and
// parameters of the right sizes: what runs it sends real messages against that compute.
#pragma once

#include <memory>
#include <vector>

#include "entrain/graph/graph.h"
#include "entrain/models/model.h"
#include "entrain/plan/assignment.h"

namespace entrain::trials {

// Values are zeros, and so are gradients. A parameter's gradient is made by the last backward of a step that
// goes through its layer: those before it would add zeros, at the price of a pass through the memory.
class ReplayedModel final : public models::Model {
 public:
  // `speed`: of this rank's host; passes take 1 / speed of the profile's time. Throws InputError for a
  // profile whose layers have no times.
  ReplayedModel(graph::Graph profile, double speed);

  // From now on this rank runs its passes of that shape; until told, one backward per step and layer.
  void expect(const strategy::Shape& shape, const plan::Assignment& assignment, int rank);

  torch::Tensor loss(const models::Batch& batch) override;
  layers::Sequence sequence() override;
  models::Batch synthetic(int64_t batch_size, torch::Generator& generator) const override;

  struct Passes;  // shared with the layers' backwards

 private:
  const graph::Graph profile_;
  const double speed_;
  std::vector<torch::Tensor> variables_;  // by G's numbers
  std::shared_ptr<Passes> passes_;
};

}  // namespace entrain::trials
