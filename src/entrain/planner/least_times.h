// Least compute times of a model, by the largest micro-batch allowed: what the bound's parts are made of.
// A layer's time is piecewise linear in the examples, so the least of t(n) / n lies at a profiled size or at
// the largest allowed, and so does the least of t(n).
#pragma once

#include <cstdint>
#include <vector>

#include "entrain/graph/graph.h"

namespace entrain::planner {

class LeastTimes {
 public:
  // Requires: require_profile(graph) passed.
  explicit LeastTimes(const graph::Graph& graph);

  int layers() const { return static_cast<int>(graph_.layers.size()); }
  // The first that reads a variable; all of them: none does. Layers before it have no backward.
  int first_trained() const { return first_trained_; }

  // Per example, with micro-batches of at most `largest`: of one layer, and of all together (which agree on
  // the size).
  double per_example(int layer, int64_t largest) const;
  double per_example(int64_t largest) const;

  // Of one micro-batch, of `least` to `largest` examples: forward from layer `begin` on, and back to it.
  double chain(int begin, int64_t least, int64_t largest) const;
  // Of one micro-batch of at most `largest`: the forward of one layer.
  double forward(int layer, int64_t largest) const;
  // The forward of the last layer, and all backwards.
  double way_back(int64_t largest) const;

 private:
  double layer_s(int layer, int64_t examples) const;
  template <typename Time>
  double least(int64_t from, int64_t to, const Time& time) const;

  const graph::Graph& graph_;
  int first_trained_ = 0;
  std::vector<int64_t> sizes_;  // profiled, of any layer, ascending
};

}  // namespace entrain::planner
