#include "entrain/strategy/builders/parts.h"

#include <algorithm>
#include <numeric>

namespace entrain::strategy {

int64_t step_bytes(const graph::Variable& v) {
  return v.sparse && v.rows_per_step == 0 ? v.bytes() : v.step_bytes();
}

bool has_shared_hosts(const cluster::Cluster& cluster) {
  return std::any_of(cluster.hosts.begin(), cluster.hosts.end(),
                     [](const cluster::Host& host) { return host.workers > 1; });
}

Servers::Servers(const cluster::Cluster& cluster) : local_replication_(has_shared_hosts(cluster)) {
  const bool dedicated = std::any_of(cluster.hosts.begin(), cluster.hosts.end(),
                                     [](const cluster::Host& host) { return host.server_only(); });
  for (const cluster::Host& host : cluster.hosts) {
    if (!dedicated || host.server_only()) addresses_.push_back(host.address);
  }
  loads_.resize(addresses_.size());
}

ParameterServer Servers::place(int64_t bytes) {
  const auto least = std::min_element(loads_.begin(), loads_.end());
  *least += bytes;
  return {addresses_[least - loads_.begin()], local_replication_, true, 0};
}

int smallest_divisor(int64_t n) {
  for (int d = 2; d <= kMaxDivisorShards && d <= n; ++d) {
    if (n % d == 0) return d;
  }
  return 1;
}

int smallest_non_divisor(int64_t n) {
  for (int d = 2; d < n; ++d) {
    if (n % d != 0) return d;
  }
  return 1;
}

int64_t rows(const graph::Variable& v) { return v.shape.empty() ? 1 : v.shape[0]; }

std::vector<int> by_readiness(const graph::Graph& graph) {
  std::vector<int> order(graph.variables.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return graph.variables[a].ready_order < graph.variables[b].ready_order;
  });
  return order;
}

std::vector<int> merge_groups(const graph::Graph& graph, const MergeRule& rule) {
  std::vector<int> groups(graph.variables.size());
  int next = 0;
  int open = -1;  // the group that still takes variables
  bool first = true;
  int64_t held = 0;
  std::string dtype;
  for (const int i : by_readiness(graph)) {
    const graph::Variable& v = graph.variables[i];
    if (v.sparse) {
      groups[i] = next++;
      continue;
    }
    const bool alone = rule.large_alone && v.bytes() >= rule.bytes;
    if (open < 0 || alone || v.dtype != dtype) {
      open = next++;
      held = 0;
      dtype = v.dtype;
    }
    groups[i] = open;
    held += v.bytes();
    if (held >= (first ? rule.first_bytes : rule.bytes)) {
      open = -1;
      first = false;
    }
  }
  return groups;
}

Synchronizer collective_for(const graph::Variable& v, int group) {
  if (v.sparse) return AllGather{group};
  return AllReduce{Topology::kAuto, Compressor::kNone, group, {}};
}

std::vector<VariableConfig> merged_collectives(const graph::Graph& graph, const MergeRule& rule) {
  const std::vector<int> groups = merge_groups(graph, rule);
  std::vector<VariableConfig> configs;
  for (size_t i = 0; i < graph.variables.size(); ++i) {
    const graph::Variable& v = graph.variables[i];
    configs.push_back(cut(v, 0, 1, [&](int64_t) { return collective_for(v, groups[i]); }));
  }
  return configs;
}

}  // namespace entrain::strategy
