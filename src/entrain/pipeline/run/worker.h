// A worker runs one device's part of a schedule: its cells' passes in order, mail between them.
//
//   for each work:  receive ─▶ (recompute) ─▶ forward or backward ─▶ send
//                      └ the mail of the next work is expected meanwhile: the transfer overlaps with
//                      computing
#pragma once

#include <memory>
#include <vector>

#include "entrain/base/clock.h"
#include "entrain/pipeline/plan/schedule.h"
#include "entrain/pipeline/plan/span.h"
#include "entrain/pipeline/run/cell.h"
#include "entrain/pipeline/run/mail.h"
#include "entrain/pipeline/run/options.h"

namespace entrain::pipeline {

// One mini-batch cut into micro-batches.
struct MicroBatches {
  std::vector<torch::Tensor> inputs;   // used by the first cell
  std::vector<torch::Tensor> targets;  // used by the last
  std::vector<int64_t> sizes;          // examples
  int64_t total = 0;

  // M pieces whose sizes differ by one at most. Throws InputError when there are fewer examples than pieces.
  static MicroBatches cut(const torch::Tensor& input, const torch::Tensor& target, int pieces);
};

// The device of their parameters; the CPU for cells without any.
torch::Device place_of(const std::vector<Cell>& cells);

class Worker {
 public:
  // Everything outlives the worker. `cells`: those of this device; they compute where their parameters are.
  Worker(const Cut& cut, const Schedule& schedule, int device, const Options& options,
         std::vector<Cell> cells, const layers::Sequence& sequence, Mail& mail);

  // One step's passes: adds to the parameters' gradients those of the mini-batch's mean loss. Returns this
  // worker's part of that loss (0 without the last cell).
  double run(int64_t step, const MicroBatches& batch, Clock::time_point began);

  const std::vector<Span>& spans() const { return spans_; }
  const std::vector<Cell>& cells() const { return cells_; }

 private:
  void forward(Cell& cell, int micro_batch);
  void backward(Cell& cell, int micro_batch);
  std::vector<torch::Tensor> receive(const Cell& cell, int micro_batch, bool backward);
  void send(const Cell& cell, int micro_batch, bool backward, std::vector<torch::Tensor> values);
  void expect(size_t work);
  Cell& cell_of(const Work& work);

  // A pass has been made, not only asked for: on a GPU the two differ.
  void settle() const;
  // Adds a span from `since` to now.
  void note(Span::Kind kind, const Cell& cell, int micro_batch, double since);
  double now() const { return seconds_since(began_); }

  const Cut& cut_;
  const Schedule& schedule_;
  int device_;
  Remat remat_;
  double loss_scale_;
  std::vector<Cell> cells_;
  torch::Device place_;
  const layers::Sequence& sequence_;
  Mail& mail_;

  // Of the step under way.
  const MicroBatches* batch_ = nullptr;
  LossOf loss_;
  double loss_sum_ = 0;
  Clock::time_point began_;
  std::vector<Span> spans_;
};

}  // namespace entrain::pipeline
