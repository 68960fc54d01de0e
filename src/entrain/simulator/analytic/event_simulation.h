// One training iteration as events: gradients become ready along backward, messages share links, the next
// forward waits for the variables it reads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "entrain/simulator/simulator.h"

namespace entrain::simulator {

// What one iteration is made of, in seconds.
struct Estimate {
  double seconds = 0;       // of an iteration, in the steady state
  double compute = 0;       // forward, backward, update of the slowest worker
  double exposed = 0;       // communication that nothing hides: seconds - compute
  double link_bound = 0;    // busiest direction of a host's link, by payload
  double busiest_link = 0;  // its time with overheads
  int busiest_host = 0;
  bool busiest_sending = true;
  double latency = 0;       // sum over messages of rounds x latency
  double last_arrival = 0;  // when the last message ends, from the start of backward
  double messages = 0;      // count
  double transfers = 0;     // sends of all ranks
};

// Thread-safe, deterministic. `graph` and `cluster` are copied.
class EventSimulation final : public Simulator {
 public:
  EventSimulation(const graph::Graph& graph, const cluster::Cluster& cluster, const Calibration& calibration);
  ~EventSimulation() override;

  std::string name() const override { return "event"; }
  std::vector<double> score(std::span<const strategy::Strategy> strategies) const override;

  // Requires: the strategy passes validate() for (graph, cluster).
  Estimate estimate(const strategy::Strategy& strategy) const;

 private:
  struct Model;
  std::unique_ptr<const Model> model_;
};

}  // namespace entrain::simulator
