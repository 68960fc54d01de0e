// A lesson's strategies as tensors, made once, and batches cut from them.
#pragma once

#include <random>
#include <vector>

#include "entrain/simulator/learned/networks.h"
#include "entrain/simulator/ranker.h"

namespace entrain::simulator {

class LessonTensors {
 public:
  // `linear`: the 12 published features per strategy, else features of its parts.
  LessonTensors(const graph::Graph& graph, const cluster::Cluster& cluster,
                const std::vector<const strategy::Strategy*>& strategies, bool linear);

  int64_t count() const { return count_; }
  const torch::Tensor& inputs() const { return inputs_; }
  // Parts of a strategy.
  int64_t parts(int64_t strategy) const { return parts_[static_cast<size_t>(strategy)]; }
  // Strategies `chosen`, in this order.
  StrategyBatch batch(const std::vector<int64_t>& chosen) const;

 private:
  bool linear_;
  int64_t count_, variables_;
  torch::Tensor inputs_, owners_;  // [rows, width]; [rows]: variable
  std::vector<int64_t> offsets_, parts_;
  torch::Tensor from_, to_;
};

// Hosts and groups renumbered: a random order of the one-hot columns, the same for the whole batch.
void renumber(StrategyBatch& batch, std::mt19937_64& rng);

}  // namespace entrain::simulator
