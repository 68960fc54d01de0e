// What draws ask about (G, D), worked out once: a search draws a hundred thousand strategies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/strategy/strategy.h"

namespace entrain::strategy::sampling {

struct VariableFacts {
  int64_t bytes = 0;    // of the variable
  int64_t traffic = 0;  // that a worker sends for it in a step: sparse ones only their rows
  bool sparse = false;
  int dtype = 0;  // index into the graph's dtypes
  int ready = 0;
  std::vector<int> axes;  // that can be cut
};

// `graph` and `cluster` outlive it.
struct DomainFacts {
  DomainFacts(const graph::Graph& graph, const cluster::Cluster& cluster);

  const graph::Graph& graph;
  const cluster::Cluster& cluster;
  std::vector<VariableFacts> variables;
  std::vector<int> dense, sparse;  // variables, in data-flow order
  std::vector<int> dense_by_size;  // the largest first
  std::vector<double> traffic;     // by variable: weights for drawing one
  int dtypes = 0;
  // Sizes worth cutting to and merging to shrink with the traffic of a step, in one worker's bytes: in a
  // model of 1 MB it does not matter whether a part is 1 or 4 MB. 1 from 64 MB on.
  double scale = 1;
  std::vector<int> worker_hosts;
  std::vector<int> server_hosts;   // that only serve
  std::vector<int> fastest_hosts;  // all, falling bandwidth; server-only hosts win ties
  std::vector<double> bandwidth;   // by host
  bool shared_hosts = false;       // some host has several workers
  std::vector<std::string> replicas;

  // Bytes that a worker sends for one shard.
  int64_t shard_traffic(int variable, const VariableConfig& config, int shard) const;
};

enum class Kind { kServer, kAllReduce, kAllGather };
inline Kind kind_of(const Part& part) { return static_cast<Kind>(part.synchronizer.index()); }

// One part of a strategy whose variables are in the graph's order.
struct PartRef {
  int variable;
  int index;
  int64_t bytes;

  Part& in(Strategy& strategy) const { return strategy.variables[variable].parts[index]; }
  const Part& in(const Strategy& strategy) const { return strategy.variables[variable].parts[index]; }
};

// The parts of one kind, in data-flow order.
std::vector<PartRef> parts_of(const Strategy& strategy, Kind kind, const DomainFacts& facts);

// One empty config per variable, and the replicas.
Strategy blank(const DomainFacts& facts);
// Variables in the graph's order. Requires: the strategy is for this model. Throws InputError otherwise.
Strategy arranged(const Strategy& strategy, const DomainFacts& facts);

}  // namespace entrain::strategy::sampling
