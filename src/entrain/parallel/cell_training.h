// One update of a model that is cut into cells: what its two kinds have in common.
//
//   Shaped     a rank has cells, as the shape of the job says
//   Threaded   every rank has all cells, each on a thread of its own; ranks are replicas
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "entrain/models/model.h"
#include "entrain/pipeline/plan/span.h"

namespace entrain::parallel {

// Examples [begin, begin + count) of an update: the same ones whichever rank asks.
using Examples = std::function<models::Batch(int64_t begin, int64_t count)>;

// One per rank that trains. All methods on one thread; the same calls in the same order on every such rank.
// Errors: PeerError naming the rank that failed, Error for what is not finite, naming it.
class CellTraining {
 public:
  virtual ~CellTraining() = default;

  // Passes, sums, clipping: gradients are then those of the mean loss over the update's examples. Returns the
  // mean loss of those that this rank knows of: all (Shaped), or its own.
  virtual double run(const Examples& examples) = 0;
  // The optimizer's update with these gradients.
  virtual void update() = 0;

  // Examples per update from now on; the same on every rank.
  virtual void set_examples(int64_t examples) = 0;

  // Collective, between two steps: throws Error naming the ranks whose parameters or plan are not those of
  // the others that hold the same (compared_state.h).
  virtual void compare() = 0;

  // Collective: brings the whole model and its optimizer's state to rank 0.
  virtual void gather() = 0;

  struct Passes {
    std::vector<std::vector<pipeline::Span>> spans;  // by device that is here
    double seconds = 0;                              // until the passes were done
  };
  virtual Passes passes() const = 0;  // of the last run()

  virtual std::string strategy_id() const = 0;  // of the gradients' sums; known after the first step
};

}  // namespace entrain::parallel
