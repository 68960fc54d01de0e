// entrain's space. Independent draws per variable are all alike in the large: about half on servers, parts of
// all sizes. So a style is drawn first, for the strategy as a whole, and the variables follow it, some
// freely.
#include <algorithm>

#include "entrain/strategy/sampler/compressors.h"
#include "entrain/strategy/sampler/grouping.h"
#include "entrain/strategy/sampler/partition.h"
#include "entrain/strategy/sampler/placement.h"
#include "entrain/strategy/sampler/spaces.h"

namespace entrain::strategy::sampling {
namespace {

enum class Split { kByPart, kByVariable, kLargeServed, kSmallServed };

struct Style {
  bool by_size;  // parts of about part_bytes, else AutoSync's draw
  int64_t part_bytes;
  AxisRule axis;
  double freedom;  // share of variables that are drawn on their own
  double served;   // share of dense parts (or bytes) on servers
  Split split;
  double sparse_served;  // share of sparse variables on servers
  bool proxy;            // local replication
};

Style draw_style(const DomainFacts& facts, Rng& rng) {
  static constexpr double kShares[] = {0, 0.25, 0.5, 0.75, 1};
  static constexpr double kFreedoms[] = {0, 0, 0, 0.05, 0.2};
  static constexpr double kSparse[] = {0, 0.5, 1};
  static constexpr AxisRule kAxes[] = {AxisRule::kFirst, AxisRule::kFirst, AxisRule::kLongest,
                                       AxisRule::kAny};
  Style style;
  style.by_size = chance(rng, 0.85);
  style.part_bytes = draw_part_bytes(facts, rng);
  style.axis = pick(rng, kAxes);
  style.freedom = pick(rng, kFreedoms);
  style.served = pick(rng, kShares);
  style.split = static_cast<Split>(below(rng, 4));
  style.sparse_served = pick(rng, kSparse);
  style.proxy = facts.shared_hosts && chance(rng, 0.75);
  return style;
}

MaybePartition partition_of(int variable, const Style& style, const DomainFacts& facts,
                            const SamplerOptions& options, Rng& rng) {
  if (!style.by_size || chance(rng, style.freedom)) return draw_partition(variable, facts, options, rng);
  if (!facts.variables[variable].sparse) {
    return cut_to(variable, style.part_bytes, style.axis, facts, options, rng);
  }
  // A sparse variable's rows are few per step: cut to spread them, about one shard per host.
  const VariableFacts& v = facts.variables[variable];
  if (v.axes.empty() || options.max_shards < 2 || chance(rng, 0.5)) return std::nullopt;
  const int64_t rows = facts.graph.variables[variable].shape[0];
  const int64_t most = std::min<int64_t>({rows, options.max_shards, 2 * facts.cluster.workers() + 2});
  return Partition{0, static_cast<int>(most < 2 ? 2 : between(rng, 2, most))};
}

// By variable: whether the style puts it on servers when it goes by size.
std::vector<bool> served_by_size(const Style& style, const DomainFacts& facts) {
  std::vector<bool> served(facts.variables.size());
  double all = 0, held = 0;
  for (const int i : facts.dense) all += facts.traffic[i];
  const bool large = style.split == Split::kLargeServed;
  const int count = static_cast<int>(facts.dense_by_size.size());
  for (int k = 0; k < count && held < style.served * all; ++k) {
    const int variable = facts.dense_by_size[large ? k : count - 1 - k];
    served[variable] = true;
    held += facts.traffic[variable];
  }
  return served;
}

Synchronizer collective(bool sparse) {
  if (sparse) return AllGather{};
  return AllReduce{};
}

void choose_synchronizers(Strategy& strategy, const Style& style, const DomainFacts& facts, Rng& rng) {
  const bool by_size = style.split == Split::kLargeServed || style.split == Split::kSmallServed;
  const std::vector<bool> by_bytes = by_size ? served_by_size(style, facts) : std::vector<bool>();
  for (size_t i = 0; i < facts.variables.size(); ++i) {
    const bool sparse = facts.variables[i].sparse;
    const bool free = chance(rng, style.freedom);
    const double share = free ? 0.5 : sparse ? style.sparse_served : style.served;
    const bool whole = by_size && !free && !sparse ? by_bytes[i] : chance(rng, share);
    for (Part& part : strategy.variables[i].parts) {
      const bool served = style.split == Split::kByPart && !sparse ? chance(rng, share) : whole;
      part.synchronizer = served ? ParameterServer{"", style.proxy, true, 0} : collective(sparse);
    }
  }
}

}  // namespace

PriorityOrder draw_priority_order(Rng& rng) {
  static constexpr PriorityOrder kOrders[] = {
      PriorityOrder::kForward, PriorityOrder::kForward, PriorityOrder::kForward, PriorityOrder::kReady,
      PriorityOrder::kReady,   PriorityOrder::kLarge,   PriorityOrder::kRandom};
  return pick(rng, kOrders);
}

void set_priorities(Strategy& strategy, PriorityOrder order, const DomainFacts& facts, Rng& rng) {
  std::vector<int> place(facts.variables.size(), -1);
  for (size_t i = 0; i < place.size(); ++i) {
    if (order == PriorityOrder::kReady) place[i] = facts.variables[i].ready;
    if (order == PriorityOrder::kRandom) {
      place[i] = static_cast<int>(below(rng, static_cast<int64_t>(place.size())));
    }
  }
  if (order == PriorityOrder::kLarge) {
    const auto& by_size = facts.dense_by_size;
    for (size_t k = 0; k < by_size.size(); ++k) place[by_size[k]] = static_cast<int>(k);
    for (const int i : facts.sparse) place[i] = 0;
  }
  for (size_t i = 0; i < place.size(); ++i) {
    for (Part& part : strategy.variables[i].parts) {
      part.priority = order == PriorityOrder::kForward ? std::nullopt : std::optional<int>(place[i]);
    }
  }
}

Strategy sample_own(const DomainFacts& facts, const SamplerOptions& options, Rng& rng) {
  const Style style = draw_style(facts, rng);
  Strategy strategy = blank(facts);
  for (size_t i = 0; i < facts.variables.size(); ++i) {
    VariableConfig& config = strategy.variables[i];
    config.partition = partition_of(static_cast<int>(i), style, facts, options, rng);
    config.parts.resize(config.partition ? config.partition->shards : 1);
  }
  choose_synchronizers(strategy, style, facts, rng);
  place(strategy, parts_of(strategy, Kind::kServer, facts), own_balancer(facts, rng), facts, rng);
  const auto reduced = parts_of(strategy, Kind::kAllReduce, facts);
  merge(strategy, reduced, own_scheme(reduced.size(), facts, options, rng), facts, rng);
  choose_topologies(strategy, reduced, facts, rng);
  set_priorities(strategy, draw_priority_order(rng), facts, rng);
  draw_compressors(strategy, facts, options, rng);
  renumber(strategy, facts);
  return strategy;
}

}  // namespace entrain::strategy::sampling
