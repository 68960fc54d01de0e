#include "entrain/strategy/sampler/domain_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "entrain/base/error.h"
#include "entrain/base/near_equal.h"
#include "entrain/strategy/builders/parts.h"

namespace entrain::strategy::sampling {
namespace {

VariableFacts facts_of(const graph::Variable& v) {
  VariableFacts facts;
  facts.bytes = v.bytes();
  facts.traffic = step_bytes(v);
  facts.sparse = v.sparse;
  facts.ready = v.ready_order;
  const size_t axes = v.sparse ? std::min<size_t>(v.shape.size(), 1) : v.shape.size();
  for (size_t axis = 0; axis < axes; ++axis) {
    if (v.shape[axis] >= 2) facts.axes.push_back(static_cast<int>(axis));
  }
  return facts;
}

}  // namespace

DomainFacts::DomainFacts(const graph::Graph& g, const cluster::Cluster& c) : graph(g), cluster(c) {
  std::vector<std::string> seen;
  for (const graph::Variable& v : graph.variables) {
    const int index = static_cast<int>(variables.size());
    variables.push_back(facts_of(v));
    auto found = std::find(seen.begin(), seen.end(), v.dtype);
    if (found == seen.end()) found = seen.insert(seen.end(), v.dtype);
    variables.back().dtype = static_cast<int>(found - seen.begin());
    traffic.push_back(static_cast<double>(variables.back().traffic) + 1);  // empty ones can be drawn too
    (v.sparse ? sparse : dense).push_back(index);
  }
  dtypes = static_cast<int>(seen.size());
  constexpr double kFullScale = 64 << 20;
  double step = 0;
  for (const VariableFacts& v : variables) step += static_cast<double>(v.traffic);
  scale = std::clamp(step / kFullScale, 1e-3, 1.0);
  dense_by_size = dense;
  std::stable_sort(dense_by_size.begin(), dense_by_size.end(),
                   [&](int a, int b) { return variables[a].traffic > variables[b].traffic; });

  for (size_t i = 0; i < cluster.hosts.size(); ++i) {
    const cluster::Host& host = cluster.hosts[i];
    bandwidth.push_back(host.bandwidth_gbit);
    (host.server_only() ? server_hosts : worker_hosts).push_back(static_cast<int>(i));
    for (int k = 0; k < host.workers; ++k) replicas.push_back(fmt::format("{}:CPU:{}", host.address, k));
  }
  shared_hosts = has_shared_hosts(cluster);
  fastest_hosts = server_hosts;
  fastest_hosts.insert(fastest_hosts.end(), worker_hosts.begin(), worker_hosts.end());
  std::stable_sort(fastest_hosts.begin(), fastest_hosts.end(),
                   [&](int a, int b) { return bandwidth[a] > bandwidth[b]; });
}

int64_t DomainFacts::shard_traffic(int variable, const VariableConfig& config, int shard) const {
  const int64_t whole = variables[variable].traffic;
  if (!config.partition) return whole;
  const auto [axis, shards] = *config.partition;
  const int64_t dimension = graph.variables[variable].shape[axis];
  const int64_t slices = NearEqualParts(dimension, shards).size(shard);
  return static_cast<int64_t>(static_cast<double>(whole) * static_cast<double>(slices) /
                              static_cast<double>(dimension));
}

std::vector<PartRef> parts_of(const Strategy& strategy, Kind kind, const DomainFacts& facts) {
  std::vector<PartRef> refs;
  for (size_t i = 0; i < strategy.variables.size(); ++i) {
    const VariableConfig& config = strategy.variables[i];
    for (size_t p = 0; p < config.parts.size(); ++p) {
      if (kind_of(config.parts[p]) != kind) continue;
      const int variable = static_cast<int>(i), shard = static_cast<int>(p);
      refs.push_back({variable, shard, facts.shard_traffic(variable, config, shard)});
    }
  }
  return refs;
}

Strategy blank(const DomainFacts& facts) {
  Strategy strategy;
  strategy.replicas = facts.replicas;
  strategy.variables.resize(facts.variables.size());
  for (size_t i = 0; i < facts.variables.size(); ++i) {
    strategy.variables[i].name = facts.graph.variables[i].name;
  }
  return strategy;
}

Strategy arranged(const Strategy& strategy, const DomainFacts& facts) {
  const auto& variables = facts.graph.variables;
  if (strategy.variables.size() != variables.size()) {
    bad_input("strategy is for another model: it has {} variables, the model {} has {}",
              strategy.variables.size(), facts.graph.model, variables.size());
  }
  const bool in_order = std::equal(
      variables.begin(), variables.end(), strategy.variables.begin(),
      [](const graph::Variable& v, const VariableConfig& config) { return v.name == config.name; });
  Strategy result = strategy;
  result.id.clear();
  result.replicas = facts.replicas;
  if (in_order) return result;
  for (const VariableConfig& config : strategy.variables) {
    const int variable = facts.graph.find(config.name);
    if (variable < 0) bad_input("strategy is for another model: it has {}", config.name);
    result.variables[variable] = config;
  }
  return result;
}

}  // namespace entrain::strategy::sampling
