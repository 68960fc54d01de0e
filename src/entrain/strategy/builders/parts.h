// What several builders share: placing on servers, cutting, merging.
#pragma once

#include <cstdint>
#include <vector>

#include "entrain/base/near_equal.h"
#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/strategy/strategy.h"

namespace entrain::strategy {

// What a variable weighs when parts are placed and merged: Variable::step_bytes, or all of it when the rows
// of a sparse one are not known.
int64_t step_bytes(const graph::Variable& v);

// True when some host has several workers, so that summing inside the host saves traffic.
bool has_shared_hosts(const cluster::Cluster& cluster);

// Places parts on servers, each on the one with the fewest bytes so far (ties: the first).
// Greedy list scheduling: loads differ by at most the largest part.
class Servers {
 public:
  // Server-only hosts if there are any, else every host.
  explicit Servers(const cluster::Cluster& cluster);

  ParameterServer place(int64_t bytes);

 private:
  std::vector<std::string> addresses_;
  std::vector<int64_t> loads_;
  bool local_replication_;
};

// Most shards the divisor rules make; a prime vocabulary must not become 100,000 shards. 40 is the
// limit of AutoSync's sampler too.
inline constexpr int kMaxDivisorShards = 40;

// Smallest divisor of n above 1, or 1 when there is none up to kMaxDivisorShards.
int smallest_divisor(int64_t n);
// Smallest number above 1 and below n that does not divide n, or 1 when there is none.
int smallest_non_divisor(int64_t n);

// Size of the first axis; 1 for a scalar.
int64_t rows(const graph::Variable& v);

// The variable cut along `axis` into `shards` (1: whole), each part given synchronizer_for(bytes of the
// part).
template <typename Function>
VariableConfig cut(const graph::Variable& v, int axis, int shards, Function synchronizer_for) {
  if (shards <= 1) return {v.name, std::nullopt, {Part{synchronizer_for(step_bytes(v)), std::nullopt}}};
  VariableConfig config{v.name, Partition{axis, shards}, {}};
  const int64_t dim = v.shape[axis];
  const NearEqualParts sizes(dim, shards);
  for (int i = 0; i < shards; ++i) {
    const double share = static_cast<double>(sizes.size(i)) / static_cast<double>(dim);
    const auto bytes = static_cast<int64_t>(share * static_cast<double>(step_bytes(v)));
    config.parts.push_back({synchronizer_for(bytes), std::nullopt});
  }
  return config;
}

// Indices of the variables in the order in which their gradients become ready.
std::vector<int> by_readiness(const graph::Graph& graph);

// How all-reduce messages are merged: variables join in ready order until a group holds `bytes`
// (`first_bytes` for the first, so that the wire starts early).
struct MergeRule {
  int64_t first_bytes;
  int64_t bytes;
  bool large_alone;  // a variable of `bytes` or more gets its own group: nothing to gain, a copy to lose
};

// The group of each variable, by index, numbered in ready order. Groups have one dtype; a sparse
// variable has a group to itself.
std::vector<int> merge_groups(const graph::Graph& graph, const MergeRule& rule);

// All-reduce in its group, or all-gather when the gradient is sparse.
Synchronizer collective_for(const graph::Variable& v, int group);

// Every variable whole, by collective_for, in the groups that `rule` makes.
std::vector<VariableConfig> merged_collectives(const graph::Graph& graph, const MergeRule& rule);

// entrain's own rule: 4 MB messages amortise latency (at 1 Gbit/s 4 MB take 33 ms, a message overhead is
// well under 1 ms) and are small enough that the first leaves while backward still runs.
inline constexpr MergeRule kOverlapRule{4 << 20, 4 << 20, true};

// For servers, which answer each message by itself: 128 KB take 1 ms at 1 Gbit/s, several times what a
// message costs those who send and sum it. (Half of that and twice that were both slower for BERT small.)
inline constexpr MergeRule kServedRule{128 << 10, 128 << 10, true};

}  // namespace entrain::strategy
