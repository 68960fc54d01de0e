// Dynamic programming over cells, for one order of ranks, one number M of micro-batches, one way to
// recompute, and two limits, `rest` and `late`; from the last layer back.
//
//   F(j, k + w) = min over i > j, w of  F(i, k) + pass + 2 transfer
//
// is the least time of one micro-batch through layers j on, and back, when they are on the order's first
// k + w ranks, the cell [j, i) on the w ranks from place k on. Knowing k, the ranks behind a cell, the
// program knows how many micro-batches a replica has in flight, ceil((k + w) / w), so memory is exact.
//
// A step takes F(0, .) for one micro-batch and then, for the others, what the slowest cell or link needs:
//   cell  ceil(M / w) pass - pass <= rest       (w replicas take w micro-batches at a time)
//   link  M transfer / hosts - transfer <= rest      (forward, say; of the way back the last one waits)
//   sync  exposed <= late, the longest that a cell's gradients keep the next step waiting
//   step = F(0, .) + rest + late
// This is PipeDream's and Alpa's recurrence with the bottleneck as a parameter, except that the first
// micro-batch of each replica is part of F already: data parallelism is one cell with `rest` 0.
//
//   pass     forward and backward of a micro-batch, recomputation too, at the ranks' mean speed
//   exposed  max over k in [j, i) of sync(j..k) - both(0..k - 1), as in estimate.h
//
// O(L^2 n widths) for L layers and n ranks.
#pragma once

#include <optional>
#include <vector>

#include "entrain/planner/estimate.h"

namespace entrain::planner {

class CellProgram {
 public:
  struct Choice {
    double seconds = 0;
    strategy::Shape shape;
  };

  // `widths` ascending, none above M is used. The estimator outlives it.
  CellProgram(const Estimator& estimator, const std::vector<int>& order, const std::vector<int>& widths,
              int micro_batches, bool recompute);

  // The most that `rest` and `late` can be; the least is 0.
  double most_rest() const { return most_rest_; }
  double most_late() const { return most_late_; }

  // For each number of ranks of `counts` the best shape on the order's first so many, cells with shares by
  // speed. Fewer, where none fits. None whose step would be above `limit`.
  std::vector<Choice> best(double rest, double late, const std::vector<int>& counts, double limit);

 private:
  struct Place {  // of a cell in the order
    int width;
    double mean_speed, memory, link;
    int hosts;
    double rounds;        // micro-batches per replica
    bool joins_upstream;  // on one host, the one of the next rank of the order
  };
  struct Step {
    double seconds;
    int end, width;
  };

  void fill(double rest, double late, double limit);
  Choice trace(int ranks, double seconds) const;

  const Estimator& estimator_;
  const std::vector<int>& order_;
  int micro_batches_, layers_, ranks_;
  int64_t size_;  // of a micro-batch
  bool recompute_;
  double most_rest_ = 0, most_late_ = 0, fastest_ = 0;
  std::vector<std::vector<Place>> places_;  // by first place in the order
  std::vector<Step> steps_;                 // by ranks and first layer
};

}  // namespace entrain::planner
