// A schedule played with costs: the predicted step and where its time goes.
//
// A device runs its work in order, each pass once what it needs has arrived. A value for another device
// travels over the link from its producer's device to its consumer's, one at a time, while both compute:
//   arrival = max(end of the pass, link free) + latency + bytes * seconds per byte.
//
// The parts sum to the makespan exactly; none is negative:
//   compute + recompute   mean busy time of the devices
//   imbalance             max busy - mean busy: what an even split would save
//   bubble                makespan with free links - max busy: filling, draining, waiting
//   transfer              makespan - makespan with free links: what the links add
// With equal cells on "gpipe", bubble / makespan = (K-1)/(M+K-1).
#pragma once

#include <string>
#include <vector>

#include "entrain/pipeline/plan/cell_cost.h"
#include "entrain/pipeline/plan/remat.h"
#include "entrain/pipeline/plan/schedule.h"

namespace entrain::pipeline {

struct TimelineOptions {
  Remat remat = Remat::kNever;
  std::vector<double> speed = {};  // by device; empty: 1 everywhere. A pass lasts cost / speed.
  double link_s_per_byte = 0;
  double link_latency_s = 0;
  bool early_recompute = false;  // recompute while the gradient is still on its way
};

struct Event {
  int device;
  Work work;
  bool recompute;  // the recomputation ahead of `work`, a backward
  double begin_s;
  double end_s;
};

struct Timeline {
  double makespan_s = 0;
  std::vector<double> busy_s;  // by device, recomputation included
  double compute_s = 0, recompute_s = 0, imbalance_s = 0, bubble_s = 0, transfer_s = 0;
  std::vector<Event> events;  // by device, in time order

  double bubble_share() const { return makespan_s > 0 ? bubble_s / makespan_s : 0; }
  double imbalance_share() const { return makespan_s > 0 ? imbalance_s / makespan_s : 0; }
};

// Requires one cost a cell and, where given, one speed a device, > 0: otherwise InputError.
Timeline run_schedule(const Schedule& schedule, const std::vector<CellCost>& costs,
                      const TimelineOptions& options = {});

}  // namespace entrain::pipeline
