// A whole strategy as numbers that mean the same in every domain.
//
// Times are divided by the domain's scale, max(compute, best link bound): what an iteration takes at least.
// Bytes and counts are shares. So a ranker trained on one (G, D) can be asked about another.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "entrain/simulator/schema.h"
#include "entrain/simulator/simulator.h"

namespace entrain::simulator {

// One (G, D). Thread-safe; copies what it needs.
class StrategyFeatures {
 public:
  StrategyFeatures(const graph::Graph& graph, const cluster::Cluster& cluster,
                   const Calibration& calibration);
  ~StrategyFeatures();

  static const Schema& schema();
  static int count() { return static_cast<int>(schema().features.size()); }
  // The feature that is log(event simulation's seconds / scale): where boosting starts.
  static int event_feature();

  // Writes count() values. Requires: the strategy passes validate(); row has that size.
  void compute(const strategy::Strategy& strategy, std::span<float> row) const;
  // Rows one after the other.
  std::vector<float> compute(std::span<const strategy::Strategy> strategies) const;

 private:
  struct Model;
  std::unique_ptr<const Model> model_;
};

}  // namespace entrain::simulator
