// What other links, more hosts or more examples per update would be worth: the best shape of each, simulated.
//
//   for each setting:  plan_shapes ─┐
//                      one host     ├─▶ improve, a little ─▶ price with the best builder ─┐
//                      best so far ─┘                                                     ├─▶ the fastest
//                      all layers on all ranks: whole_model.h ────────────────────────────┤
//                      the best of fewer such hosts: the others may stay unused ──────────┘
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "entrain/graph/graph.h"
#include "entrain/planner/bound.h"
#include "entrain/simulator/simulator.h"
#include "entrain/tuner/shape_pricer.h"
#include "entrain/tuner/what_if/setting.h"

namespace entrain::tuner {

struct WhatIfOptions {
  simulator::Calibration calibration = {};
  uint64_t seed = 0;
  int optimizer_slots = 1;  // as PricerOptions
  int exact_ranks = 8;
  int planned = 40;       // of the planner's shapes that are simulated, per setting
  int evaluations = 400;  // that the local search simulates, per setting
};

// A shape's simulated update.
struct Choice {
  strategy::Strategy strategy;  // with its shape
  double seconds = 0;           // per update
  int hosts = 0;                // that hold layers
};

struct WhatIfPoint {
  Setting setting;              // normal(): see there
  cluster::Cluster cluster;     // of it
  std::optional<Choice> best;   // nothing: no shape that was found fits in memory
  std::optional<Choice> alone;  // all layers on one host
  std::optional<Choice>
      data_parallel;     // all layers on all ranks, by the best builder; nothing: it does not fit
  planner::Bound bound;  // of all shapes, without compression

  double examples_per_s(const Choice& choice) const {
    return static_cast<double>(setting.examples) / choice.seconds;
  }
};

// From the base to the next value of one axis.
struct WhatIfStep {
  Setting setting;
  double gbit = 0;     // links
  int hosts = 0;       // that train
  double speedup = 1;  // seconds of the base's best over those of this one's
};

struct WhatIf {
  std::vector<WhatIfPoint> points;                     // of the product, in its order
  WhatIfPoint base;                                    // the cluster as it is
  std::optional<WhatIfStep> faster_links, more_hosts;  // nothing: no such value, or no shape fits
};

// Before each setting: how many are priced, of how many.
using WhatIfProgress = std::function<void(int done, int total)>;

// Deterministic. The base's examples are `examples`. Throws InputError for a graph without timed layers, and
// where a setting cannot be (cluster_of()).
WhatIf what_if(const graph::Graph& graph, const cluster::Cluster& cluster, const Axes& axes, int64_t examples,
               const WhatIfOptions& options = {}, const WhatIfProgress& progress = {});

}  // namespace entrain::tuner
