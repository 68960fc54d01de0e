// Seconds per step of any shape in closed form, and the memory it takes: what the planner ranks with, in some
// microseconds. The event simulation is exacter; this one only has to order shapes roughly.
//
//   n          examples of a micro-batch; lat_c: forward and backward of one through cell c, with its
//              recomputation and both transfers over the cut before it
//   rank r     busy_r + sum of lat_c over the cells c that r does not hold       (fill and drain)
//   exposed    max over hosts h, layers k: sum over layers l <= k of sync_l(h), less the forward and backward
//              of one micro-batch through the layers before k: gradient l is ready when the layers before it
//              still have their backward to run, and is needed when they have run their next forward, so all
//              up to k must travel in that window (lateness of earliest deadline first)
//   queue_h    bytes of forwards that a host sends or receives / rate, and what one micro-batch takes
//   besides:
//              computing, and the way back
//   links      max over hosts of all bytes in one direction / rate
//   seconds = max(max(max_r rank_r, max_h queue_h) + exposed, links)
//
// A sum over w hosts takes 2 (w - 1) / w of its bytes on each link in each direction (ring, halving-doubling
// and parts spread over servers all do).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/planner/costs.h"
#include "entrain/strategy/shape.h"

namespace entrain::planner {

struct Limits {
  std::vector<double> memory_bytes =
      {};                   // by rank, 0: no limit; empty: an equal part of its host's memory_gib
  int optimizer_slots = 1;  // values per parameter that the optimizer keeps
};

struct Overheads {
  double link_efficiency = 0.94;  // payload over nominal rate
  double transfer_s = 100e-6;     // of each transfer, and of each layer's sum
  double pass_s = 0;              // of each pass
};

struct Estimate {
  double seconds = 0;
  double shortfall_bytes = 0;  // that the rank with the least room lacks; 0: it fits
  bool fits() const { return shortfall_bytes <= 0; }
};

// What the planner knows of one job. Not thread-safe (it remembers times). `graph`, `cluster` outlive it.
class Estimator {
 public:
  // Throws InputError for a graph without profiled layers, or fewer than one example.
  Estimator(const graph::Graph& graph, const cluster::Cluster& cluster, int64_t examples, Limits limits = {},
            Overheads overheads = {});

  // Requires: strategy::validate(shape, ...) passes.
  Estimate of(const strategy::Shape& shape) const;

  const graph::Graph& graph() const { return graph_; }
  const cluster::Cluster& cluster() const { return cluster_; }
  int64_t examples() const { return examples_; }
  int layers() const { return static_cast<int>(graph_.layers.size()); }
  const LayerBytes& bytes() const { return bytes_; }
  const Limits& limits() const { return limits_; }
  const Overheads& overheads() const { return overheads_; }
  const PassTimes& times(int64_t micro_batch) const;
  double speed(int rank) const { return speed_[rank]; }
  double link(int host) const { return link_[host]; }  // payload bytes per second
  int host_of(int rank) const { return host_of_[rank]; }
  double memory(int rank) const { return limits_.memory_bytes[rank]; }

 private:
  struct Work;
  Work work_of(const strategy::Shape& shape) const;
  double shortfall(const strategy::Shape& shape, const Work& work) const;
  double exposed(const strategy::Shape& shape, const Work& work) const;

  const graph::Graph& graph_;
  const cluster::Cluster& cluster_;
  int64_t examples_;
  Limits limits_;
  Overheads overheads_;
  LayerBytes bytes_;
  std::vector<double> speed_, link_;
  std::vector<int> host_of_;
  mutable std::map<int64_t, PassTimes> times_;
};

}  // namespace entrain::planner
