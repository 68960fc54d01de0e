// What is varied of a job: the rate of its links, the number of its hosts, the examples per update.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "entrain/cluster/cluster.h"

namespace entrain::tuner {

// A job's cluster and examples, as far as they differ from those that it has.
struct Setting {
  int64_t examples = 1;  // per update, of all ranks together
  int hosts = 0;         // so many like the first host; 0: the cluster's own
  double link_gbit = 0;  // of each host's link, in each direction; 0: the cluster's own
  friend bool operator==(const Setting&, const Setting&) = default;
  bool operator<(const Setting& other) const {
    return std::tie(examples, hosts, link_gbit) < std::tie(other.examples, other.hosts, other.link_gbit);
  }
};

// The values that are varied, each ascending and each once; none: it is not varied.
struct Axes {
  std::vector<double> link_gbit = {};
  std::vector<int> hosts = {};
  std::vector<int64_t> examples = {};
};

// The product of what is varied; `examples` where they are not. The examples change slowest, then the hosts.
std::vector<Setting> product(const Axes& axes, int64_t examples);

// With 0 for what the cluster has anyway, so that what was measured of its links counts.
Setting normal(Setting setting, const cluster::Cluster& cluster);

// Another rate replaces the cluster's rates between hosts, and the measured ones; measured latencies stay.
// Other hosts have neither. Throws InputError for more ranks than a cluster may have.
cluster::Cluster cluster_of(const Setting& setting, const cluster::Cluster& cluster);

// Whether a job on `first` alone could run on `cluster`, whose first hosts are like it.
bool begins_with(const cluster::Cluster& cluster, const cluster::Cluster& first);

// Hosts that train.
int training_hosts(const cluster::Cluster& cluster);
// Of the slowest link of a host that trains.
double slowest_link_gbit(const cluster::Cluster& cluster);

}  // namespace entrain::tuner
