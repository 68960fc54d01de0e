// G's times from the steps of a running job: no extra computing, and as fast or slow as the ranks really
// are beside each other.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "entrain/base/clock.h"
#include "entrain/graph/graph.h"

namespace entrain::parallel {

// Told of a step's events in the order in which they happen; no two calls overlap.
//
//   forward_begins  reads(0) reads(1) ...  forward_ends  backward_begins  made(n-1) ... made(0) backward_ends
//
// `excluded`: seconds spent so far on anything but computing (waiting for messages, updating); only its
// growth counts.
class StepProfile {
 public:
  explicit StepProfile(size_t variables) : variables_(variables) {}

  void forward_begins(double excluded);
  void reads(size_t v, double excluded);  // an operation is about to read v; repeats are welcome
  void forward_ends(double excluded);
  void forget();  // the step under way: its forward cannot be told from other work
  void backward_begins();
  void made(size_t v);
  void backward_ends();

  size_t steps() const { return kept_.size(); }
  bool full() const { return kept_.size() == kKept; }  // later steps replace the oldest
  // Medians over the last steps into forward_s and backward_s. Requires: steps() > 0.
  void fill(graph::Graph& graph) const;

 private:
  static constexpr size_t kKept = 9;
  struct Step {
    std::vector<double> forward, backward;
    std::vector<size_t> order;  // variables as their gradients were made
  };

  double lap(double excluded);

  size_t variables_;
  Step step_;
  bool forward_seen_ = false;
  size_t current_ = 0;  // the variable that forward is at
  bool at_variable_ = false;
  Clock::time_point last_;
  double excluded_ = 0;
  std::deque<Step> kept_;
};

}  // namespace entrain::parallel
