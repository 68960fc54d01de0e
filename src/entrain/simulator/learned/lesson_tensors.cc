#include "entrain/simulator/learned/lesson_tensors.h"

#include <algorithm>
#include <numeric>

namespace entrain::simulator {
namespace {

torch::Tensor tensor_of(std::vector<float>& values, int64_t width) {
  return torch::from_blob(values.data(), {static_cast<int64_t>(values.size()) / width, width}).clone();
}

torch::Tensor tensor_of(const std::vector<int64_t>& values) { return torch::tensor(values, torch::kInt64); }

}  // namespace

LessonTensors::LessonTensors(const graph::Graph& graph, const cluster::Cluster& cluster,
                             const std::vector<const strategy::Strategy*>& strategies, bool linear)
    : linear_(linear),
      count_(static_cast<int64_t>(strategies.size())),
      variables_(static_cast<int64_t>(graph.variables.size())) {
  const PartFeatures features(graph, cluster);
  std::vector<float> twelve;
  PartRows rows;
  for (const auto* strategy : strategies) {
    int64_t parts = 0;
    for (const auto& v : strategy->variables) parts += static_cast<int64_t>(v.parts.size());
    parts_.push_back(parts);
    if (linear) {
      const auto row = features.linear(*strategy);
      twelve.insert(twelve.end(), row.begin(), row.end());
    } else {
      features.append(*strategy, rows);
    }
  }
  inputs_ = linear ? tensor_of(twelve, kPublishedFeatures) : tensor_of(rows.values, kPartWidth);
  owners_ = tensor_of(rows.variables);
  offsets_ = std::move(rows.offsets);
  std::vector<int64_t> from, to;
  for (int64_t v = 0; v < variables_; ++v) {
    from.push_back(v);
    to.push_back(v);
  }
  for (const auto& edge : graph.edges) {
    from.insert(from.end(), {edge.from, edge.to});
    to.insert(to.end(), {edge.to, edge.from});
  }
  from_ = tensor_of(from);
  to_ = tensor_of(to);
}

StrategyBatch LessonTensors::batch(const std::vector<int64_t>& chosen) const {
  StrategyBatch batch;
  batch.size = static_cast<int64_t>(chosen.size());
  batch.variables = variables_;
  batch.from = from_;
  batch.to = to_;
  if (linear_) {
    batch.inputs = inputs_.index_select(0, tensor_of(chosen));
    return batch;
  }
  std::vector<int64_t> rows, bases;
  for (size_t b = 0; b < chosen.size(); ++b) {
    for (int64_t r = offsets_[chosen[b]]; r < offsets_[chosen[b] + 1]; ++r) {
      rows.push_back(r);
      bases.push_back(static_cast<int64_t>(b) * variables_);
    }
  }
  const auto index = tensor_of(rows);
  batch.inputs = inputs_.index_select(0, index);
  batch.slots = owners_.index_select(0, index) + tensor_of(bases);
  return batch;
}

void renumber(StrategyBatch& batch, std::mt19937_64& rng) {
  if (batch.inputs.size(1) != kPartWidth) return;
  std::vector<int64_t> columns(kPartWidth);
  std::iota(columns.begin(), columns.end(), 0);
  std::shuffle(columns.begin(), columns.begin() + kHostColumns, rng);
  std::shuffle(columns.begin() + kHostColumns, columns.begin() + kHostColumns + kGroupColumns, rng);
  batch.inputs = batch.inputs.index_select(1, tensor_of(columns));
}

}  // namespace entrain::simulator
