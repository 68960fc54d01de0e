#include "entrain/simulator/parts.h"

#include <algorithm>

#include "entrain/base/error.h"

namespace entrain::simulator {

PartWalk::PartWalk(const graph::Graph& graph, const cluster::Cluster& cluster) {
  for (const graph::Variable& v : graph.variables) {
    by_name_.emplace(v.name, static_cast<int>(known_.size()));
    known_.push_back({v.name, v.shape, v.sparse, static_cast<double>(v.step_bytes())});
    total_bytes_ += known_.back().bytes;
  }
  for (const cluster::Host& host : cluster.hosts) addresses_.push_back(host.address);
}

int PartWalk::find_by_name(const std::string& name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) fail("strategy has variable {}, the model has no such variable", name);
  return found->second;
}

int PartWalk::find_device(const std::string& device) const {
  const auto found = std::find(addresses_.begin(), addresses_.end(), cluster::host_part(device));
  if (found == addresses_.end()) fail("strategy has server {}, the cluster has no such host", device);
  return static_cast<int>(found - addresses_.begin());
}

}  // namespace entrain::simulator
