#include "entrain/pipeline/run/rank_pipeline.h"

#include <algorithm>
#include <cstring>

#include "entrain/base/error.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/pipeline/run/assemble.h"
#include "entrain/transport/control_tags.h"

namespace entrain::pipeline {
namespace {

using transport::Tag;

int device_of(const std::vector<int>& ranks, int rank) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  if (found == ranks.end()) fail("rank {} is not of this pipeline", rank);
  return static_cast<int>(found - ranks.begin());
}

transport::Bytes bytes_of(const torch::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

}  // namespace

RankPipeline::RankPipeline(transport::Transport& transport, std::vector<int> ranks, layers::Sequence sequence,
                           Options options, double timeout_s)
    : transport_(transport),
      ranks_(std::move(ranks)),
      device_(device_of(ranks_, transport.rank())),
      sequence_(std::move(sequence)),
      options_(std::move(options)),
      timeout_s_(timeout_s),
      cut_(checked_cut(sequence_, options_)),
      schedule_(make_schedule(options_.schedule, options_.devices, options_.micro_batches, options_.chunks)) {
  std::vector<int> rank_of;
  for (int c = 0; c < cut_.cells(); ++c) rank_of.push_back(ranks_.at(schedule_.device_of(c)));
  std::vector<Cell> cells = cells_of(sequence_, cut_, options_, device_);
  mail_ = std::make_unique<RankMail>(transport_, cut_, rank_of, place_of(cells), timeout_s_);
  worker_ = std::make_unique<Worker>(cut_, schedule_, device_, options_, std::move(cells), sequence_, *mail_);
  const auto all_tied = tied_parameters(sequence_, cut_);
  for (size_t i = 0; i < all_tied.size(); ++i) {
    std::vector<int> with;
    for (const int c : all_tied[i].second) with.push_back(rank_of[c]);
    std::sort(with.begin(), with.end());
    with.erase(std::unique(with.begin(), with.end()), with.end());
    const bool here = std::find(with.begin(), with.end(), transport.rank()) != with.end();
    if (here && with.size() > 1) tied_.push_back({i, all_tied[i].first, with});
  }
}

double RankPipeline::run(const torch::Tensor& input, const torch::Tensor& target) {
  const MicroBatches batch = MicroBatches::cut(input, target, options_.micro_batches);
  const auto began = Clock::now();
  mail_->begin_step(batch.sizes);
  const double part = worker_->run(step_, batch, began);
  mail_->end_step();
  for (const Cell& cell : worker_->cells()) {
    for (const auto& module : cell.modules()) layers::commit_batch_norm(*module);
  }
  const double loss = sum(part);
  ++step_;
  return loss;
}

// The lowest rank that has a tied parameter sums its gradients and hands the sum back.
void RankPipeline::sum_tied() {
  const torch::NoGradGuard no_grad;
  constexpr std::string_view kWhat = "gradient of a tied parameter";
  for (const Tied& tied : tied_) {
    const torch::Tensor& parameter = tied.parameter;
    if (!parameter.grad().defined()) parameter.mutable_grad() = torch::zeros_like(parameter);
    if (parameter.grad().is_sparse())
      bad_input("a tied parameter with sparse gradients: not in a pipeline of ranks");
    const torch::Tensor own = parameter.grad().to(torch::kCPU).contiguous();
    const Tag tag = transport::tags::kTied + tied.number;
    const Deadline deadline = Deadline::after(timeout_s_);
    const int root = tied.with.front();
    if (transport_.rank() != root) {
      transport::send(transport_, root, tag, bytes_of(own), {0, deadline, kWhat});
      transport::recv_into(transport_, root, tag, bytes_of(own), {deadline, kWhat});
    } else {
      const torch::Tensor other = torch::empty_like(own);
      for (size_t j = 1; j < tied.with.size(); ++j) {
        transport::recv_into(transport_, tied.with[j], tag, bytes_of(other), {deadline, kWhat});
        own.add_(other);
      }
      for (size_t j = 1; j < tied.with.size(); ++j) {
        transport::send(transport_, tied.with[j], tag, bytes_of(own), {0, deadline, kWhat});
      }
    }
    parameter.mutable_grad() = own.to(parameter.device());
  }
}

double RankPipeline::sum(double value) const {
  const int root = ranks_.front();
  const auto limit = Deadline::after(timeout_s_);
  const auto bytes = [](double& x) { return transport::Bytes{reinterpret_cast<std::byte*>(&x), sizeof(x)}; };
  if (transport_.rank() != root) {
    transport::send(transport_, root, transport::tags::kCellSum, bytes(value),
                    {0, limit, "a sum over the pipeline"});
    transport::recv_into(transport_, root, transport::tags::kCellSum, bytes(value),
                         {limit, "a sum over the pipeline"});
    return value;
  }
  for (size_t i = 1; i < ranks_.size(); ++i) {
    double other = 0;
    transport::recv_into(transport_, ranks_[i], transport::tags::kCellSum, bytes(other),
                         {limit, "a sum over the pipeline"});
    value += other;
  }
  for (size_t i = 1; i < ranks_.size(); ++i) {
    transport::send(transport_, ranks_[i], transport::tags::kCellSum, bytes(value),
                    {0, limit, "a sum over the pipeline"});
  }
  return value;
}

std::vector<torch::Tensor> RankPipeline::parameters() const {
  std::vector<const Cell*> cells;
  for (const Cell& cell : worker_->cells()) cells.push_back(&cell);
  return parameters_of(cells);
}

std::vector<torch::Tensor> RankPipeline::buffers() const {
  std::vector<torch::Tensor> result;
  for (const Cell& cell : worker_->cells()) {
    for (const auto& module : cell.modules()) {
      for (const auto& buffer : module->buffers()) result.push_back(buffer);
    }
  }
  return result;
}

bool RankPipeline::counts_here(const torch::Tensor& parameter) const {
  for (const Tied& tied : tied_) {
    if (tied.parameter.is_same(parameter)) return transport_.rank() == tied.with.front();
  }
  return true;
}

}  // namespace entrain::pipeline
