// Estimates f(G, D, S) without running it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/strategy/strategy.h"

namespace entrain::simulator {

// What the links and hosts of a cluster do beyond their nominal rates. The defaults are those of the lab on
// a small machine; fit() (calibrate.h) finds them from measured runs.
struct Calibration {
  double link_efficiency = 0.94;    // payload over nominal rate: headers, shaping
  double burst_s = 0.0015;          // a link that was idle lets so much of its rate pass at once
  double window_bytes = 128e3;      // that a stream has on its way at once
  double latency_s = 35e-6;         // of one round of a schedule, the wake-ups of both ends included
  double message_s = 11e-6;         // of a rank's time for one message: posting, matching, completing
  double engine_bytes_per_s = 6e9;  // a rank's thread that moves bytes: each byte sent and received
  double reduce_bytes_per_s = 3e9;  // summing at a receiver
  double pack_bytes_per_s = 1.5e9;  // copying a slice that does not lie in one piece
  double cast_bytes_per_s = 6e9;    // float32 made 16-bit numbers and back
  double matmul_flops = 2e10;       // PowerSGD's products with tall, thin matrices
  double update_bytes_per_s = 4e9;  // the optimizer, by bytes of parameters
  double compute_scale = 1;         // measured compute over profiled
  double least_segment = 64 << 10;  // bytes: of messages of one chunk (collective/executor.h); not fitted
  double cores = 0;  // that hosts of lab: and local: clusters share; 0: each has its own, or times say so
};

// One (G, D). Scores are comparable within it only; lower is better. Thread-safe.
class Simulator {
 public:
  virtual ~Simulator() = default;
  virtual std::string name() const = 0;
  virtual std::vector<double> score(std::span<const strategy::Strategy> strategies) const = 0;
};

}  // namespace entrain::simulator
