// Whether this machine can hold the ranks of a job that are all started here.
#pragma once

#include <string>

#include "entrain/cluster/cluster.h"

namespace entrain::app {

struct Machine {
  int cores = 1;
  double free_bytes = 0;  // memory that can be had now; 0: unknown
};

Machine this_machine();

// A warning in words when many ranks share few cores; empty: all is well. Throws InputError when they are far
// too many, or the memory cannot be enough for the bare processes, unless ENTRAIN_OVERCOMMIT=1. Clusters of
// real hosts are not judged.
std::string check_capacity(const cluster::Cluster& cluster, const Machine& machine);

// The same for this machine; logs the warning.
void warn_of_capacity(const cluster::Cluster& cluster);

}  // namespace entrain::app
