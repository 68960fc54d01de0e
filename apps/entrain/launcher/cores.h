// Which of this machine's cores the hosts of a lab compute on.
#pragma once

#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"

namespace entrain::app {

// Those that this process may use, ascending.
std::vector<int> usable_cores();

// By host: cores of its own out of `cores`, as many as its `cpus` says, else an equal part of those that are
// left, where each host gets two or more. Nothing: hosts share all cores. Throws InputError where the hosts'
// cpus are more than there are.
std::vector<std::vector<int>> cores_by_host(const cluster::Cluster& cluster, const std::vector<int>& cores);

// "4 cores per host", "1, 1, 6 and 6 cores"; empty for nothing.
std::string describe_cores(const std::vector<std::vector<int>>& by_host);

}  // namespace entrain::app
