#include "entrain/pipeline/run/worker.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/base/near_equal.h"

namespace entrain::pipeline {

torch::Device place_of(const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    for (const auto& parameter : cell.parameters()) return parameter.device();
  }
  return torch::kCPU;
}

MicroBatches MicroBatches::cut(const torch::Tensor& input, const torch::Tensor& target, int pieces) {
  const int64_t examples = input.size(0);
  if (examples < pieces) {
    bad_input("{} micro-batches of a batch of {}: allowed: 1 to {}", pieces, examples, examples);
  }
  MicroBatches result;
  result.total = examples;
  for (int i = 0; i < pieces; ++i) {
    const int64_t begin = spread_begin(examples, pieces, i), end = spread_begin(examples, pieces, i + 1);
    result.inputs.push_back(input.narrow(0, begin, end - begin));
    result.targets.push_back(target.narrow(0, begin, end - begin));
    result.sizes.push_back(end - begin);
  }
  return result;
}

Worker::Worker(const Cut& cut, std::vector<Pass> passes, double loss_scale, std::vector<Cell> cells,
               const layers::Sequence& sequence, Mail& mail)
    : cut_(cut),
      passes_(std::move(passes)),
      loss_scale_(loss_scale),
      cells_(std::move(cells)),
      place_(place_of(cells_)),
      sequence_(sequence),
      mail_(mail) {
  // Micro-batches count by their examples, so that their gradients sum to those of the mini-batch's mean.
  loss_ = [this](const torch::Tensor& output, int micro_batch) {
    const auto share = static_cast<double>(batch_->sizes[micro_batch]) / static_cast<double>(batch_->total);
    return sequence_.loss(output, batch_->targets[micro_batch].to(output.device())) * (share * loss_scale_);
  };
}

double Worker::run(int64_t step, const MicroBatches& batch, Clock::time_point began) {
  batch_ = &batch;
  began_ = began;
  loss_sum_ = 0;
  spans_.clear();
  for (Cell& cell : cells_) cell.begin_step(step);
  for (size_t i = 0; i < passes_.size(); ++i) {
    expect(i);
    expect(i + 1);
    Cell& cell = cell_of(passes_[i].work);
    if (passes_[i].work.kind == Kind::kForward) {
      forward(cell, passes_[i]);
    } else {
      if (backward_begins_) backward_begins_(cell.index());
      backward(cell, passes_[i]);
      if (backward_ended_) backward_ended_(cell.index());
    }
  }
  return loss_sum_;
}

Cell& Worker::cell_of(const Work& work) {
  const auto found =
      std::find_if(cells_.begin(), cells_.end(), [&](const Cell& cell) { return cell.index() == work.cell; });
  if (found == cells_.end()) fail("cell {} is not of this worker", work.cell);
  return *found;
}

void Worker::expect(size_t pass) {
  if (pass >= passes_.size()) return;
  const Work& next = passes_[pass].work;
  const bool backward = next.kind == Kind::kBackward;
  for (const size_t edge : backward ? cut_.out_of(next.cell) : cut_.into(next.cell)) {
    mail_.expect({edge, next.micro_batch, backward});
  }
}

std::vector<torch::Tensor> Worker::receive(const Cell& cell, int micro_batch, bool backward) {
  std::vector<torch::Tensor> values;
  const double since = now();
  Waited waited;
  for (const size_t edge : backward ? cut_.out_of(cell.index()) : cut_.into(cell.index())) {
    values.push_back(mail_.receive({edge, micro_batch, backward}, waited));
    if (values.back().defined()) values.back() = values.back().to(place_);
  }
  const double until = now();
  const double sent = std::min(until, since + waited.for_sender);
  if (waited.for_sender > 0) spans_.push_back({Span::Kind::kWait, cell.index(), micro_batch, since, sent});
  if (until > sent) spans_.push_back({Span::Kind::kTransfer, cell.index(), micro_batch, sent, until});
  return values;
}

void Worker::send(const Cell& cell, int micro_batch, bool backward, std::vector<torch::Tensor> values) {
  const double since = now();
  const auto edges = backward ? cut_.into(cell.index()) : cut_.out_of(cell.index());
  for (size_t i = 0; i < edges.size(); ++i) {
    mail_.send({edges[i], micro_batch, backward}, std::move(values[i]));
  }
  if (!edges.empty()) note(Span::Kind::kTransfer, cell, micro_batch, since);
}

void Worker::forward(Cell& cell, const Pass& pass) {
  const int micro_batch = pass.work.micro_batch;
  std::vector<torch::Tensor> inputs;
  if (cell.first()) {
    inputs = {batch_->inputs[micro_batch].to(place_)};
  } else {
    inputs = receive(cell, micro_batch, false);
  }
  const double since = now();
  auto outputs = cell.forward(micro_batch, std::move(inputs), pass.recompute, loss_);
  if (cell.last()) loss_sum_ += outputs[0].item<double>() / loss_scale_;
  settle(since);
  note(Span::Kind::kForward, cell, micro_batch, since);
  if (!cell.last()) send(cell, micro_batch, false, std::move(outputs));
}

// Recomputing does not need the gradients: it fills the wait for them.
void Worker::backward(Cell& cell, const Pass& pass) {
  const int micro_batch = pass.work.micro_batch;
  if (pass.recompute) {
    const double since = now();
    cell.recompute(micro_batch, loss_);
    settle(since);
    note(Span::Kind::kRecompute, cell, micro_batch, since);
  }
  std::vector<torch::Tensor> gradients;
  if (!cell.last()) gradients = receive(cell, micro_batch, true);
  const double since = now();
  auto back = cell.backward(micro_batch, gradients);
  settle(since);
  note(Span::Kind::kBackward, cell, micro_batch, since);
  if (!cell.first()) send(cell, micro_batch, true, std::move(back));
}

void Worker::settle(double since) const {
  if (!place_.is_cpu()) c10::impl::VirtualGuardImpl(place_.type()).getStream(place_).synchronize();
  if (slowdown_ > 0) std::this_thread::sleep_for(Seconds(slowdown_ * (now() - since)));
}

void Worker::note(Span::Kind kind, const Cell& cell, int micro_batch, double since) {
  spans_.push_back({kind, cell.index(), micro_batch, since, now()});
}

}  // namespace entrain::pipeline
