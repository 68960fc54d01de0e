// Where two strategies of one (G, D) differ, by kind, and one of them with a kind of difference undone.
#pragma once

#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/strategy/strategy.h"

namespace entrain::tuner {

enum class Aspect {
  kBigSynchronizers,    // PS, all-reduce or all-gather, of the variables that hold 90% of the bytes
  kSmallSynchronizers,  // ... and of the others
  kPlacement,           // host that serves
  kLocalSums,           // a host sums its own ranks first
  kPartition,           // axis and shards
  kMergeGroups,         // which variables travel in one message
  kTopology,            // of an all-reduce
  kRingOrder,
  kCompressor,
  kPriorities,
};
inline constexpr std::array kAspects{
    Aspect::kBigSynchronizers, Aspect::kSmallSynchronizers, Aspect::kPlacement, Aspect::kLocalSums,
    Aspect::kPartition,        Aspect::kMergeGroups,        Aspect::kTopology,  Aspect::kRingOrder,
    Aspect::kCompressor,       Aspect::kPriorities};
std::string_view name_of(Aspect aspect);

struct Difference {
  Aspect aspect;
  int variables = 0;  // that differ in it
  int parts = 0;      // of the strategy, not of the baseline
  double bytes = 0;   // one worker's, in a step
};

// Two strategies part by part. A part is compared with the part of the baseline that holds its middle; parts
// of another synchronizer differ in nothing else. Keeps references: all arguments outlive it. Thread-safe.
class PartComparison {
 public:
  // Requires: both pass validate() for (graph, cluster).
  PartComparison(const strategy::Strategy& strategy, const strategy::Strategy& baseline,
                 const graph::Graph& graph, const cluster::Cluster& cluster);

  // 0: the same, 1: nothing alike. Mean over the strategy's parts, by bytes, of
  //   1 where the synchronizer is another, else the share of what such a part can differ in
  double distance() const;

  // Aspects that differ, in the order of kAspects.
  std::vector<Difference> differences() const;

  // The strategy with one aspect as the baseline has it, the others as they are. Parts that the baseline
  // merges are merged as far as their other choices allow. May fail validate().
  strategy::Strategy undone(Aspect aspect) const;

 private:
  struct Pair {
    int variable;  // index into G
    size_t config, part;
    const strategy::Part* own;
    const strategy::Part* base;
    double bytes;
    std::vector<Aspect> differs;
    bool differs_in(Aspect aspect) const;
  };
  using Members = std::map<int, std::vector<int>>;  // variables of each merge group, sorted

  void compare(Pair& pair, bool big) const;
  bool same_placement(const strategy::ParameterServer& a, const strategy::ParameterServer& b) const;
  std::vector<int> listed(const std::vector<int>& ring_order) const;
  void undo_partition(strategy::Strategy& result) const;
  strategy::Synchronizer adopted(const Pair& pair, int fresh_group) const;

  const strategy::Strategy& strategy_;
  const cluster::Cluster& cluster_;
  std::vector<const strategy::VariableConfig*> base_of_;  // by G's index
  Members own_groups_, base_groups_;
  std::vector<Pair> pairs_;
};

}  // namespace entrain::tuner
