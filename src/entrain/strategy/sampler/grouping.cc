#include "entrain/strategy/sampler/grouping.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

namespace entrain::strategy::sampling {
namespace {

AllReduce& all_reduce(Strategy& strategy, const PartRef& ref) {
  return std::get<AllReduce>(ref.in(strategy).synchronizer);
}

void fill(Strategy& strategy, std::vector<PartRef> parts, int64_t bytes, const DomainFacts& facts) {
  std::stable_sort(parts.begin(), parts.end(), [&](const PartRef& a, const PartRef& b) {
    return facts.variables[a.variable].ready < facts.variables[b.variable].ready;
  });
  int next = 0, open = -1;
  int64_t held = 0;
  for (const PartRef& ref : parts) {
    if (ref.bytes >= bytes) {  // nothing to gain from merging, and what is open stays open
      all_reduce(strategy, ref).group = next++;
      continue;
    }
    if (open < 0) {
      open = next++;
      held = 0;
    }
    all_reduce(strategy, ref).group = open;
    held += ref.bytes;
    if (held >= bytes) open = -1;
  }
}

void balance(Strategy& strategy, const std::vector<PartRef>& parts, int64_t count) {
  double sum = 1, before = 0;
  for (const PartRef& ref : parts) sum += static_cast<double>(ref.bytes);
  for (const PartRef& ref : parts) {
    // By the middle of the part, so that one that spans a border goes where most of it lies.
    const double middle = before + static_cast<double>(ref.bytes) / 2;
    all_reduce(strategy, ref).group = static_cast<int>(middle / sum * static_cast<double>(count));
    before += static_cast<double>(ref.bytes);
  }
}

bool uses_order(Topology topology) {
  return topology == Topology::kRing || topology == Topology::kAuto || topology == Topology::kTree ||
         topology == Topology::kHalvingDoubling;
}

void set_topology(AllReduce& s, const GroupTopology& chosen) {
  s.topology = chosen.topology;
  s.ring_order = chosen.ring_order;
}

}  // namespace

MergeScheme published_scheme(size_t parts, const DomainFacts& facts, const SamplerOptions& options,
                             Rng& rng) {
  const auto n = static_cast<int64_t>(std::max<size_t>(parts, 1));
  // Each number may become one group per dtype.
  const int64_t most = std::max<int64_t>(1, options.max_groups / std::max(1, facts.dtypes));
  const auto rule = static_cast<MergeScheme::Rule>(below(rng, 3));
  if (rule == MergeScheme::Rule::kChunk) return {rule, between(rng, (n + most - 1) / most, n), 0};
  return {rule, between(rng, 1, std::min(most, n)), 0};
}

MergeScheme own_scheme(size_t parts, const DomainFacts& facts, const SamplerOptions& options, Rng& rng) {
  if (chance(rng, 0.2)) return published_scheme(parts, facts, options, rng);
  static constexpr int64_t kSizes[] = {0,       256 << 10, 512 << 10, 1 << 20, 2 << 20,
                                       4 << 20, 8 << 20,   16 << 20,  32 << 20};
  const double bytes = facts.scale * static_cast<double>(pick(rng, kSizes));
  return {MergeScheme::Rule::kFill, 1, static_cast<int64_t>(bytes)};
}

void merge(Strategy& strategy, const std::vector<PartRef>& parts, const MergeScheme& scheme,
           const DomainFacts& facts, Rng& rng) {
  switch (scheme.rule) {
    case MergeScheme::Rule::kFill:
      return fill(strategy, parts, scheme.bytes, facts);
    case MergeScheme::Rule::kBalanced:
      return balance(strategy, parts, scheme.count);
    case MergeScheme::Rule::kRandom:
      for (const PartRef& ref : parts) {
        all_reduce(strategy, ref).group = static_cast<int>(below(rng, scheme.count));
      }
      return;
    case MergeScheme::Rule::kChunk:
      for (size_t i = 0; i < parts.size(); ++i) {
        all_reduce(strategy, parts[i]).group = static_cast<int>(static_cast<int64_t>(i) / scheme.count);
      }
      return;
  }
}

GroupTopology draw_group_topology(const DomainFacts& facts, Rng& rng) {
  static constexpr Topology kTopologies[] = {Topology::kAuto,          Topology::kRing,
                                             Topology::kReduceScatter, Topology::kHalvingDoubling,
                                             Topology::kTree,          Topology::kHierarchical};
  GroupTopology chosen{pick(rng, kTopologies), {}};
  // With one worker per host the hierarchical one is the ring.
  if (chosen.topology == Topology::kHierarchical && !facts.shared_hosts) chosen.topology = Topology::kRing;
  if (!uses_order(chosen.topology) || facts.worker_hosts.size() < 3 || chance(rng, 0.6)) return chosen;
  chosen.ring_order = facts.worker_hosts;
  if (chance(rng, 0.3)) {  // a tree's inner nodes come first: let them be the fast ones
    std::stable_sort(chosen.ring_order.begin(), chosen.ring_order.end(),
                     [&](int a, int b) { return facts.bandwidth[a] > facts.bandwidth[b]; });
  } else {
    shuffle(rng, chosen.ring_order);
  }
  return chosen;
}

void choose_topologies(Strategy& strategy, const std::vector<PartRef>& parts, const DomainFacts& facts,
                       Rng& rng) {
  const double style = unit(rng);
  if (style < 0.6) {
    const GroupTopology chosen = draw_group_topology(facts, rng);
    for (const PartRef& ref : parts) set_topology(all_reduce(strategy, ref), chosen);
    return;
  }
  std::map<int, int64_t> bytes;  // by group
  for (const PartRef& ref : parts) bytes[all_reduce(strategy, ref).group] += ref.bytes;
  std::unordered_map<int, GroupTopology> topologies;
  if (style < 0.85) {
    static constexpr int64_t kBorders[] = {64 << 10, 256 << 10, 1 << 20};
    const auto border = static_cast<int64_t>(facts.scale * static_cast<double>(pick(rng, kBorders)));
    const GroupTopology small = draw_group_topology(facts, rng), large = draw_group_topology(facts, rng);
    for (const auto& [group, size] : bytes) topologies[group] = size < border ? small : large;
  } else {
    for (const auto& [group, size] : bytes) topologies[group] = draw_group_topology(facts, rng);
  }
  for (const PartRef& ref : parts) {
    AllReduce& s = all_reduce(strategy, ref);
    set_topology(s, topologies[s.group]);
  }
}

int renumber(Strategy& strategy, const DomainFacts& facts) {
  struct Seen {
    const AllReduce* first;
    int dtype;
    int group;
  };
  std::unordered_multimap<int, Seen> seen;
  int next = 0;
  for (size_t i = 0; i < strategy.variables.size(); ++i) {
    const int dtype = facts.variables[i].dtype;
    for (Part& part : strategy.variables[i].parts) {
      if (auto* gather = std::get_if<AllGather>(&part.synchronizer)) gather->group = next++;
      auto* reduce = std::get_if<AllReduce>(&part.synchronizer);
      if (reduce == nullptr) continue;
      if (reduce->ring_order == facts.worker_hosts || !uses_order(reduce->topology)) {
        reduce->ring_order.clear();
      }
      const auto [begin, end] = seen.equal_range(reduce->group);
      const auto same = std::find_if(begin, end, [&](const auto& entry) {
        const Seen& s = entry.second;
        return s.dtype == dtype && s.first->topology == reduce->topology &&
               s.first->ring_order == reduce->ring_order &&
               compression_of(*s.first) == compression_of(*reduce);
      });
      if (same != end) {
        reduce->group = same->second.group;
      } else {
        seen.emplace(reduce->group, Seen{reduce, dtype, next});
        reduce->group = next++;
      }
    }
  }
  return next;
}

int groups_above(const Strategy& strategy) {
  int above = 0;
  for (const VariableConfig& config : strategy.variables) {
    for (const Part& part : config.parts) {
      if (const auto* reduce = std::get_if<AllReduce>(&part.synchronizer)) {
        above = std::max(above, reduce->group + 1);
      }
    }
  }
  return above;
}

}  // namespace entrain::strategy::sampling
