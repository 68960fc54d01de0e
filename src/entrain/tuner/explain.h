// Why a strategy takes the time it takes: what travels how, which links bind, and what each difference from
// the nearest baseline is worth.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "entrain/plan/link_bound.h"
#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/tuner/differences.h"

namespace entrain::tuner {

// Some of a strategy's parts. Bytes are what one worker contributes in a step: all of a dense variable, the
// rows it touched of a sparse one.
struct Amount {
  int variables = 0;
  int parts = 0;
  double bytes = 0;
  double share = 0;  // of the bytes of all parts
};

// How variables are cut and merged.
struct Patterns {
  int whole = 0;  // variables
  int cut = 0;
  int fewest_shards = 0, most_shards = 0;  // among those that are cut
  Amount partition_then_all_reduce;        // cut, each part all-reduced
  Amount merge_then_all_reduce;            // whole, together with other variables
  Amount all_reduce_alone;                 // whole, a message to itself
  int merge_groups = 0;                    // messages that hold several variables
};

// A direction of a host's link in one step.
struct LinkUse {
  int host = 0;
  bool sending = true;
  double bytes = 0;
  double seconds = 0;  // bytes over the nominal rate
  double share = 0;    // of the simulated step that the link is busy, at the rate it really gives
  bool binds = false;  // nobody's is busy for longer, but for 1%
};

struct Served {
  int host = 0;
  int parts = 0;
  double bytes = 0;
  double share = 0;  // of the bytes on parameter servers
};

struct Worth {
  Difference difference;
  // Simulated seconds with this difference alone undone, and how much more than the strategy's that is:
  // positive where the strategy's way is better. Nothing when undoing it alone gives no valid strategy.
  std::optional<double> undone_s;
  std::optional<double> worth_s;
  std::string why_not;
};

struct Explanation {
  std::string id;
  Amount parameter_server, all_reduce, all_gather;
  Patterns patterns;
  std::vector<Served> served;  // by host
  std::vector<LinkUse> links;  // busiest first; those that carry nothing are left out
  plan::LinkBound bound;
  double best_bound_s = 0;  // of any plan that sends no fewer bytes than this one's compressors leave
  simulator::SimulatedIteration iteration;

  std::string same_as;   // the builder that makes this very strategy; mostly empty
  std::string baseline;  // the nearest builder, other than that one
  double distance = 0;
  simulator::Estimate baseline_estimate;
  std::vector<Worth> worths;  // biggest change of time first; they interact, so their sum is not the total
};

struct ExplainOptions {
  simulator::Calibration calibration;
  std::string against;  // a builder's name; empty: the nearest
};

// Pure. Requires: the strategy passes validate() for (graph, cluster), and 2 or more ranks train. Throws
// InputError for an unknown builder in `against`.
Explanation explain(const strategy::Strategy& strategy, const graph::Graph& graph,
                    const cluster::Cluster& cluster, const ExplainOptions& options = {});

}  // namespace entrain::tuner
