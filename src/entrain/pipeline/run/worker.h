// A worker runs the passes of one device in order, with mail between cells.
//
//   for each pass:  receive ─▶ (recompute) ─▶ forward or backward ─▶ send
//                      └ the mail of the next pass is expected meanwhile: the transfer overlaps with
//                      computing
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "entrain/base/clock.h"
#include "entrain/pipeline/plan/schedule.h"
#include "entrain/pipeline/plan/span.h"
#include "entrain/pipeline/run/cell.h"
#include "entrain/pipeline/run/mail.h"

namespace entrain::pipeline {

// One mini-batch cut into micro-batches. A worker needs the inputs of those that it takes through the first
// cell, and the targets of those that it takes through the last.
struct MicroBatches {
  std::vector<torch::Tensor> inputs;
  std::vector<torch::Tensor> targets;
  std::vector<int64_t> sizes;  // examples
  int64_t total = 0;

  // M pieces whose sizes differ by one at most. Throws InputError when there are fewer examples than pieces.
  static MicroBatches cut(const torch::Tensor& input, const torch::Tensor& target, int pieces);
};

// The device of their parameters; the CPU for cells without any.
torch::Device place_of(const std::vector<Cell>& cells);

class Worker {
 public:
  // Everything outlives the worker. `cells`: those that `passes` go through; they compute where their
  // parameters are. `loss_scale`: of what backward starts from, not of the loss that is returned.
  Worker(const Cut& cut, std::vector<Pass> passes, double loss_scale, std::vector<Cell> cells,
         const layers::Sequence& sequence, Mail& mail);

  // Called with the number of its cell before and after each backward.
  using CellCall = std::function<void(int cell)>;
  void watch_backwards(CellCall begins, CellCall ended) {
    backward_begins_ = std::move(begins);
    backward_ended_ = std::move(ended);
  }

  // From now on a pass takes (1 + slowdown) times as long as it computes: a slower host is rehearsed.
  void slow_down(double slowdown) { slowdown_ = slowdown; }

  // One step's passes: adds to the parameters' gradients those of the mini-batch's mean loss. Returns this
  // worker's part of that loss (0 without the last cell).
  double run(int64_t step, const MicroBatches& batch, Clock::time_point began);

  const std::vector<Span>& spans() const { return spans_; }
  const std::vector<Cell>& cells() const { return cells_; }
  const std::vector<Pass>& passes() const { return passes_; }

 private:
  void forward(Cell& cell, const Pass& pass);
  void backward(Cell& cell, const Pass& pass);
  std::vector<torch::Tensor> receive(const Cell& cell, int micro_batch, bool backward);
  void send(const Cell& cell, int micro_batch, bool backward, std::vector<torch::Tensor> values);
  void expect(size_t pass);
  Cell& cell_of(const Work& work);

  // The pass that began at `since` has been made, not only asked for: on a GPU the two differ.
  void settle(double since) const;
  // Adds a span from `since` to now.
  void note(Span::Kind kind, const Cell& cell, int micro_batch, double since);
  double now() const { return seconds_since(began_); }

  const Cut& cut_;
  const std::vector<Pass> passes_;
  const double loss_scale_;
  std::vector<Cell> cells_;
  torch::Device place_;
  const layers::Sequence& sequence_;
  Mail& mail_;
  CellCall backward_begins_, backward_ended_;
  double slowdown_ = 0;

  // Of the step under way.
  const MicroBatches* batch_ = nullptr;
  LossOf loss_;
  double loss_sum_ = 0;
  Clock::time_point began_;
  std::vector<Span> spans_;
};

}  // namespace entrain::pipeline
