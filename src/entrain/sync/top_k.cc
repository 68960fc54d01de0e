#include "entrain/sync/top_k.h"

#include <torch/torch.h>

#include <cmath>

#include "entrain/sync/largest.h"
#include "entrain/sync/slices.h"

namespace entrain::sync {
namespace {

graph::Variable elements_of(const plan::Message& message) {
  graph::Variable variable;
  variable.name = message.what;
  variable.shape = {message.elements()};
  variable.dtype = "float32";
  variable.sparse = true;
  return variable;
}

}  // namespace

TopK::TopK(const plan::Message& message, transport::Transport& transport, EventLoop& loop)
    : SparseAllGather(message, elements_of(message), transport, loop) {}

Rows TopK::rows_of(const std::vector<torch::Tensor>& gradients) {
  if (!error_.defined()) error_ = torch::zeros({message_.elements()});
  gradients_.clear();
  int64_t at = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const plan::Slice& slice = message_.slices[i];
    gradients_.push_back(narrowed(gradients[i], slice));
    error_.narrow(0, at, slice.elements).add_(gradients_.back().reshape({-1}));
    at += slice.elements;
  }
  Rows rows;
  if (!std::isfinite(error_.sum().item<float>())) {  // a first look, which costs little
    // The choice below would pass over NaN, and nobody would ever hear of it. One such value tells all ranks;
    // and a job that skips this step starts clean with the next.
    const torch::Tensor bad = at::isfinite(error_).logical_not_();
    if (bad.any().item<bool>()) {
      rows.indices = bad.nonzero().flatten().narrow(0, 0, 1);
      rows.values = error_.index_select(0, rows.indices);
      error_.masked_fill_(bad, 0);
      return rows;
    }
  }
  rows.indices = largest(error_, message_.top_k());
  rows.values = error_.index_select(0, rows.indices);
  error_.index_fill_(0, rows.indices, 0);
  return rows;
}

void TopK::finished() {
  if (gradients_.empty()) return;  // a rank that only serves
  torch::Tensor sum = torch::zeros({message_.elements()});
  const Rows all = rows();
  sum.index_copy_(0, all.indices, all.values);
  int64_t at = 0;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const int64_t elements = message_.slices[i].elements;
    gradients_[i].copy_(sum.narrow(0, at, elements).view(gradients_[i].sizes()));
    at += elements;
  }
  gradients_.clear();
}

}  // namespace entrain::sync
