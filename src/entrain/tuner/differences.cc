#include "entrain/tuner/differences.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "entrain/simulator/parts.h"
#include "entrain/strategy/compression.h"

namespace entrain::tuner {
namespace {

using strategy::AllReduce;
using strategy::ParameterServer;
using strategy::Part;
using strategy::Strategy;

constexpr double kBigShare = 0.9;

// Of `count` parts in a row, the one that holds the middle of part `part` of `of`.
size_t counterpart(size_t part, size_t of, size_t count) { return (2 * part + 1) * count / (2 * of); }

int group_of(const Part& part) {
  const auto* reduce = std::get_if<AllReduce>(&part.synchronizer);
  return reduce != nullptr ? reduce->group : -1;
}

// The largest variables that together hold kBigShare of a step's bytes.
std::vector<bool> big_variables(const simulator::PartWalk& walk) {
  std::vector<int> order(walk.variables());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return walk.step_bytes(a) > walk.step_bytes(b); });
  std::vector<bool> big(order.size());
  double held = 0;
  for (const int v : order) {
    big[v] = held < kBigShare * walk.total_bytes();
    held += walk.step_bytes(v);
  }
  return big;
}

// Who travels with the part, itself left out; group numbers mean nothing.
std::vector<int> companions(const std::map<int, std::vector<int>>& members, const Part& part, int variable) {
  const int group = group_of(part);
  if (group < 0) return {};
  std::vector<int> others = members.at(group);
  std::erase(others, variable);
  return others;
}

// Numbers that no group of a strategy has, one per key.
template <typename Key>
class FreshGroups {
 public:
  explicit FreshGroups(const Strategy& strategy) {
    for (const auto& config : strategy.variables) {
      for (const Part& part : config.parts) {
        const auto* gather = std::get_if<strategy::AllGather>(&part.synchronizer);
        taken_.insert(gather != nullptr ? gather->group : group_of(part));
      }
    }
  }
  int of(const Key& key) {
    while (taken_.contains(next_)) ++next_;
    const auto [place, added] = numbers_.try_emplace(key, next_);
    next_ += added ? 1 : 0;
    return place->second;
  }

 private:
  std::set<int> taken_;
  int next_ = 0;
  std::map<Key, int> numbers_;
};

}  // namespace

std::string_view name_of(Aspect aspect) {
  switch (aspect) {
    case Aspect::kBigSynchronizers:
      return "synchronizer of big variables";
    case Aspect::kSmallSynchronizers:
      return "synchronizer of small variables";
    case Aspect::kPlacement:
      return "placement";
    case Aspect::kLocalSums:
      return "sums inside hosts";
    case Aspect::kPartition:
      return "partition";
    case Aspect::kMergeGroups:
      return "merge groups";
    case Aspect::kTopology:
      return "topology";
    case Aspect::kRingOrder:
      return "ring order";
    case Aspect::kCompressor:
      return "compressor";
    case Aspect::kPriorities:
      return "priorities";
  }
  return "";
}

bool PartComparison::Pair::differs_in(Aspect aspect) const {
  return std::find(differs.begin(), differs.end(), aspect) != differs.end();
}

PartComparison::PartComparison(const Strategy& strategy, const Strategy& baseline, const graph::Graph& graph,
                               const cluster::Cluster& cluster)
    : strategy_(strategy), cluster_(cluster), base_of_(graph.variables.size()) {
  const simulator::PartWalk walk(graph, cluster);
  const auto join = [](Members& members, const simulator::PartView& view) {
    if (view.kind != simulator::PartKind::kAllReduce) return;
    auto& variables = members[view.group];
    const auto place = std::lower_bound(variables.begin(), variables.end(), view.variable);
    if (place == variables.end() || *place != view.variable) variables.insert(place, view.variable);
  };
  walk.each(baseline, [&](const simulator::PartView& view) { join(base_groups_, view); });
  std::unordered_map<std::string, const strategy::VariableConfig*> base_configs;
  for (const auto& config : baseline.variables) base_configs[config.name] = &config;
  for (size_t v = 0; v < base_of_.size(); ++v) base_of_[v] = base_configs.at(graph.variables[v].name);

  size_t config = 0, part = 0;
  walk.each(strategy, [&](const simulator::PartView& view) {
    join(own_groups_, view);
    const auto& base = *base_of_[view.variable];
    const size_t parts = strategy.variables[config].parts.size();
    const Part& opposite = base.parts[counterpart(part, parts, base.parts.size())];
    pairs_.push_back({view.variable, config, part, view.part, &opposite, view.bytes, {}});
    if (++part == parts) {
      part = 0;
      ++config;
    }
  });
  const std::vector<bool> big = big_variables(walk);
  for (Pair& pair : pairs_) compare(pair, big[pair.variable]);
}

bool PartComparison::same_placement(const ParameterServer& a, const ParameterServer& b) const {
  return a.destination == b.destination || cluster_.find(a.destination) == cluster_.find(b.destination);
}

// An empty ring order means the hosts that train as listed.
std::vector<int> PartComparison::listed(const std::vector<int>& ring_order) const {
  if (!ring_order.empty()) return ring_order;
  std::vector<int> hosts;
  for (size_t h = 0; h < cluster_.hosts.size(); ++h) {
    if (!cluster_.hosts[h].server_only()) hosts.push_back(static_cast<int>(h));
  }
  return hosts;
}

void PartComparison::compare(Pair& pair, bool big) const {
  const auto note = [&](bool differs, Aspect aspect) {
    if (differs) pair.differs.push_back(aspect);
  };
  if (pair.own->synchronizer.index() != pair.base->synchronizer.index()) {
    note(true, big ? Aspect::kBigSynchronizers : Aspect::kSmallSynchronizers);
  } else if (const auto* server = std::get_if<ParameterServer>(&pair.own->synchronizer)) {
    const auto& other = std::get<ParameterServer>(pair.base->synchronizer);
    note(!same_placement(*server, other), Aspect::kPlacement);
    note(server->local_replication != other.local_replication, Aspect::kLocalSums);
    note(server->group != other.group, Aspect::kMergeGroups);  // all of one builder's numbering
    note(server->compressor != other.compressor, Aspect::kCompressor);
  } else if (const auto* reduce = std::get_if<AllReduce>(&pair.own->synchronizer)) {
    const auto& other = std::get<AllReduce>(pair.base->synchronizer);
    note(companions(own_groups_, *pair.own, pair.variable) !=
             companions(base_groups_, *pair.base, pair.variable),
         Aspect::kMergeGroups);
    note(reduce->topology != other.topology, Aspect::kTopology);
    note(listed(reduce->ring_order) != listed(other.ring_order), Aspect::kRingOrder);
    note(compression_of(*reduce) != compression_of(other), Aspect::kCompressor);
  }
  note(strategy_.variables[pair.config].partition != base_of_[pair.variable]->partition, Aspect::kPartition);
  note(pair.own->priority.value_or(pair.variable) != pair.base->priority.value_or(pair.variable),
       Aspect::kPriorities);
}

double PartComparison::distance() const {
  // What a part can differ in besides its kind, by kind; partition and priority in each.
  constexpr std::array kFacets{5.0, 6.0, 2.0};
  double differing = 0, total = 0;
  for (const Pair& pair : pairs_) {
    const bool another =
        pair.differs_in(Aspect::kBigSynchronizers) || pair.differs_in(Aspect::kSmallSynchronizers);
    const double share =
        another ? 1 : static_cast<double>(pair.differs.size()) / kFacets.at(pair.own->synchronizer.index());
    differing += pair.bytes * share;
    total += pair.bytes;
  }
  return total > 0 ? differing / total : 0;
}

std::vector<Difference> PartComparison::differences() const {
  std::vector<Difference> found;
  for (const Aspect aspect : kAspects) {
    Difference difference{aspect};
    size_t last_config = strategy_.variables.size();
    for (const Pair& pair : pairs_) {
      if (!pair.differs_in(aspect)) continue;
      ++difference.parts;
      difference.bytes += pair.bytes;
      if (pair.config != last_config) ++difference.variables;
      last_config = pair.config;
    }
    if (difference.parts > 0) found.push_back(difference);
  }
  return found;
}

void PartComparison::undo_partition(Strategy& result) const {
  FreshGroups<std::pair<size_t, size_t>> fresh(strategy_);
  size_t last_config = strategy_.variables.size();
  for (const Pair& pair : pairs_) {
    if (pair.config == last_config || !pair.differs_in(Aspect::kPartition)) continue;
    last_config = pair.config;
    const auto& own = strategy_.variables[pair.config];
    auto& config = result.variables[pair.config];
    const size_t shards = base_of_[pair.variable]->parts.size();
    config.partition = base_of_[pair.variable]->partition;
    config.parts.clear();
    for (size_t p = 0; p < shards; ++p) {
      Part part = own.parts[counterpart(p, shards, own.parts.size())];
      auto* reduce = std::get_if<AllReduce>(&part.synchronizer);
      // Alone before, so its shards are: in one group they would be one message again.
      if (reduce != nullptr && companions(own_groups_, part, pair.variable).empty()) {
        reduce->group = fresh.of({pair.config, p});
      }
      config.parts.push_back(std::move(part));
    }
  }
}

// The baseline's synchronizer, in a group of its own strategy that the baseline would put it into, if there
// is one.
strategy::Synchronizer PartComparison::adopted(const Pair& pair, int fresh_group) const {
  strategy::Synchronizer synchronizer = pair.base->synchronizer;
  if (auto* gather = std::get_if<strategy::AllGather>(&synchronizer)) gather->group = fresh_group;
  auto* reduce = std::get_if<AllReduce>(&synchronizer);
  if (reduce == nullptr) return synchronizer;
  const auto& merged = base_groups_.at(reduce->group);
  reduce->group = fresh_group;
  for (const Pair& other : pairs_) {
    const auto* mate = std::get_if<AllReduce>(&other.own->synchronizer);
    if (mate == nullptr || other.variable == pair.variable) continue;
    const auto& members = own_groups_.at(mate->group);
    if (std::includes(merged.begin(), merged.end(), members.begin(), members.end())) return *mate;
  }
  return synchronizer;
}

Strategy PartComparison::undone(Aspect aspect) const {
  Strategy result = strategy_;
  if (aspect == Aspect::kPartition) {
    undo_partition(result);
    return result;
  }
  FreshGroups<std::pair<size_t, int>> adopted_groups(strategy_);  // by kind and number in the baseline
  // Parts that shall be one message must agree in the rest; what does not gets a group of its own.
  using Key =
      std::tuple<bool, int, int, strategy::Topology, std::vector<int>, strategy::Compressor, int, double>;
  const auto key_of = [](bool alone, int variable, int group, const AllReduce& rest) {
    return Key{alone,           variable,        group,     rest.topology,
               rest.ring_order, rest.compressor, rest.rank, rest.share};
  };
  FreshGroups<Key> groups(strategy_);
  for (const Pair& pair : pairs_) {
    Part& part = result.variables[pair.config].parts[pair.part];
    auto* reduce = std::get_if<AllReduce>(&part.synchronizer);
    const auto* other = std::get_if<AllReduce>(&pair.base->synchronizer);
    // Every pair of all-reduces, the equal ones too: a group changes as a whole.
    if (reduce != nullptr && other != nullptr) {
      if (aspect == Aspect::kMergeGroups) {
        const bool alone = companions(base_groups_, *pair.base, pair.variable).empty();
        reduce->group = groups.of(alone ? key_of(true, pair.variable, reduce->group, *reduce)
                                        : key_of(false, 0, other->group, *reduce));
      } else if (aspect == Aspect::kTopology || aspect == Aspect::kRingOrder ||
                 aspect == Aspect::kCompressor) {
        if (aspect == Aspect::kTopology) reduce->topology = other->topology;
        if (aspect == Aspect::kRingOrder) reduce->ring_order = other->ring_order;
        if (aspect == Aspect::kCompressor) set_compression(part.synchronizer, compression_of(*other));
        reduce->group = groups.of(key_of(false, 0, reduce->group, *reduce));
      }
    }
    if (!pair.differs_in(aspect)) continue;
    auto* server = std::get_if<ParameterServer>(&part.synchronizer);
    if (aspect == Aspect::kPriorities) {
      part.priority = pair.base->priority;
    } else if (aspect == Aspect::kPlacement) {
      server->destination = std::get<ParameterServer>(pair.base->synchronizer).destination;
    } else if (aspect == Aspect::kCompressor && server != nullptr) {
      server->compressor = std::get<ParameterServer>(pair.base->synchronizer).compressor;
    } else if (aspect == Aspect::kMergeGroups && server != nullptr) {
      server->group = std::get<ParameterServer>(pair.base->synchronizer).group;
    } else if (aspect == Aspect::kLocalSums) {
      server->local_replication = std::get<ParameterServer>(pair.base->synchronizer).local_replication;
    } else if (aspect == Aspect::kBigSynchronizers || aspect == Aspect::kSmallSynchronizers) {
      const auto* gather = std::get_if<strategy::AllGather>(&pair.base->synchronizer);
      const int group = gather != nullptr ? gather->group : group_of(*pair.base);
      part.synchronizer = adopted(pair, adopted_groups.of({pair.base->synchronizer.index(), group}));
    }
  }
  return result;
}

}  // namespace entrain::tuner
