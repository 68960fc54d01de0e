// What a faster strategy is worth.
#pragma once

#include "entrain/cluster/cluster.h"

namespace entrain::tuner {

// Price of the whole cluster for an hour: the sum over its hosts. 0: no prices are known.
double price_per_hour(const cluster::Cluster& cluster);

// iterations x seconds x (hosts x price) / 3600
double cost(double iterations, double seconds, double price_per_hour);

struct Saving {
  double before;  // the whole job with the baseline
  double after;   // the same with the strategy found
  double tuning;  // the trials
  double net() const { return before - after - tuning; }
};

// `trial_iterations` are taken to run at the baseline's speed: some trials are slower, some faster.
Saving saving(double iterations, double baseline_s, double speedup, double trial_iterations,
              double price_per_hour);

}  // namespace entrain::tuner
