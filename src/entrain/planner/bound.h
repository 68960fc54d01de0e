// The least time that a step can take here, whatever the shape and however its gradients are synchronized
// without compression. README.md proves it; in short, with N examples per update:
//
//   compute  The work of N examples, at the best micro-batch size profiled, over the speed of all ranks.
//   chain    The update of the first trained layer needs one micro-batch's forwards and backwards through
//            all layers after it, and its next forward needs that update: on the fastest rank.
//   links    A host that does some of the work and not all of it shares layers with others, whose gradients
//            travel, or hands examples over, whose activations do. T is at least the smallest T for which the
//            hosts together can do all work.
//
// The micro-batches' size joins them: large ones lengthen the chain, small ones may cost more per example.
// Payload over nominal rates: no latency, no headers, free updates, free memory. Recomputation only adds
// work. It is as good as the profile: layers' times, and that a gradient that flows back is as large as the
// activation that it belongs to.
#pragma once

#include <cstdint>

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"

namespace entrain::planner {

struct BoundOptions {
  // Hosts that share cores (a lab): what all ranks compute together at most, in ranks of speed 1. 0: each
  // rank has its own.
  double shared_speed = 0;
};

struct Bound {
  enum class Part { kCompute, kChain, kLinks };
  double seconds = 0;
  Part binds = Part::kCompute;
  int host = -1;         // kLinks: the host without whose link's limit the bound would be lowest
  double compute_s = 0;  // each part alone
  double chain_s = 0;
  double links_s = 0;  // with the compute of each host
};

// Throws InputError for a graph without profiled layers, and for fewer than one example.
Bound lower_bound(const graph::Graph& graph, const cluster::Cluster& cluster, int64_t examples,
                  const BoundOptions& options = {});

}  // namespace entrain::planner
