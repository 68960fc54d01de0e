// What a range of a model's layers costs, in O(1) per question: times by prefix sums, bytes by tables.
// Ranges are [begin, end). Cut c lies before layer c; no more than the model's input crosses cut 0.
#pragma once

#include <cstdint>
#include <vector>

#include "entrain/graph/graph.h"

namespace entrain::planner {

// Throws InputError, naming what is missing, unless the graph is a sequence of layers that were profiled.
void require_profile(const graph::Graph& graph);

// Of one pass with so many examples, on a rank of speed 1.
class PassTimes {
 public:
  // Requires: require_profile(graph) passed, examples >= 1.
  PassTimes(const graph::Graph& graph, int64_t examples);
  double forward(int begin, int end) const { return forward_[end] - forward_[begin]; }
  double backward(int begin, int end) const { return backward_[end] - backward_[begin]; }
  double both(int begin, int end) const { return forward(begin, end) + backward(begin, end); }

 private:
  std::vector<double> forward_, backward_;  // of the layers before
};

class LayerBytes {
 public:
  // Requires: require_profile(graph) passed.
  explicit LayerBytes(const graph::Graph& graph);

  // Of the variables that these layers read, each counted once (tied ones are read by several layers).
  double parameters(int begin, int end) const { return parameters_[index(begin, end)]; }
  // What a holder of these layers contributes to their sums in a step, before any compression.
  double gradients(int begin, int end) const { return gradients_[index(begin, end)]; }
  // Per example: what backward keeps of these layers.
  double kept(int begin, int end) const { return kept_[end] - kept_[begin]; }
  // Per example: what flows over a cut, with the skips that pass it.
  double crossing(int cut) const { return crossing_[cut]; }

 private:
  size_t index(int begin, int end) const {
    return static_cast<size_t>(begin) * (layers_ + 1) + static_cast<size_t>(end);
  }
  size_t layers_;
  std::vector<double> parameters_, gradients_;  // by begin and end
  std::vector<double> kept_, crossing_;
};

}  // namespace entrain::planner
