// One training iteration as events: gradients become ready along backward, messages share links, the next
// forward waits for the variables it reads.
//
//   backward  ──▶ g(n-1) ──▶ ... ──▶ g(0)                     at its slowest worker
//   messages        └── start when all their gradients are there; travel (network.h); end
//   forward         waits for variable 0, updates it, computes; waits for variable 1, ...
//
// An iteration is from one start of backward to the next. Everything that a backward sends is taken in
// by the forward after it, so one iteration is the steady state.
//
// That is a strategy without a shape, as parallel/distributed runs it. With one: shaped_simulation.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "entrain/simulator/simulator.h"

namespace entrain::simulator {

// What one iteration is made of, in seconds.
struct Estimate {
  double seconds = 0;     // of an iteration
  double compute = 0;     // forward, backward, update of the slowest worker
  double exposed = 0;     // communication that nothing hides: seconds - compute
  double link_bound = 0;  // busiest direction of a host's link: payload over nominal rate
  double busiest_s = 0;   // how long the busiest resource is busy
  int busiest_host = 0;   // where it is
  enum class Kind { kSending, kReceiving, kEngine } busiest_kind = Kind::kSending;
  double last_arrival = 0;  // when the last message ends, from the start of backward
  double latency = 0;       // sum over messages of what their longest chains wait for wake-ups
  double messages = 0;      // count
  double transfers = 0;     // of all ranks
};

// A stretch of time on a track ("backward", "forward", "link of 198.18.0.1, receiving", a message).
struct Interval {
  std::string track;
  std::string name;
  double begin;
  double end;
};

struct SimulatedIteration {
  Estimate estimate;
  std::vector<Interval> intervals;
  // What the iteration's length hangs on, from its start to its end: one interval begins where the one
  // before it ends, or waits for it.
  std::vector<Interval> critical_path;
};

// Thread-safe, deterministic. `graph` and `cluster` are copied.
class EventSimulation final : public Simulator {
 public:
  // For strategies with a shape: `examples` per update (0: the profiled batch, for each worker), and sums of
  // how many ranks are exact (shaped_simulation.h).
  EventSimulation(const graph::Graph& graph, const cluster::Cluster& cluster, const Calibration& calibration,
                  int64_t examples = 0, int exact_ranks = 32);
  ~EventSimulation() override;

  std::string name() const override { return "event"; }
  std::vector<double> score(std::span<const strategy::Strategy> strategies) const override;

  // Requires: the strategy passes validate() for (graph, cluster). With a shape: it fits the examples per
  // update, and the graph's layers have times; InputError otherwise.
  Estimate estimate(const strategy::Strategy& strategy) const;
  SimulatedIteration simulate(const strategy::Strategy& strategy) const;

 private:
  struct Model;
  struct Iteration;
  std::unique_ptr<const Model> model_;
};

}  // namespace entrain::simulator
