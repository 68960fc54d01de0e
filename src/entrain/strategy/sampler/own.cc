// entrain's space. Draws independent a variable are all alike in the large: about half on servers, parts of
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

Style draw_style(const Terrain& terrain, Rng& rng) {
  static constexpr double kShares[] = {0, 0.25, 0.5, 0.75, 1};
  static constexpr double kFreedoms[] = {0, 0, 0, 0.05, 0.2};
  static constexpr double kSparse[] = {0, 0.5, 1};
  static constexpr AxisRule kAxes[] = {AxisRule::kFirst, AxisRule::kFirst, AxisRule::kLongest,
                                       AxisRule::kAny};
  Style style;
  style.by_size = chance(rng, 0.85);
  style.part_bytes = draw_part_bytes(terrain, rng);
  style.axis = pick(rng, kAxes);
  style.freedom = pick(rng, kFreedoms);
  style.served = pick(rng, kShares);
  style.split = static_cast<Split>(below(rng, 4));
  style.sparse_served = pick(rng, kSparse);
  style.proxy = terrain.shared_hosts && chance(rng, 0.75);
  return style;
}

MaybePartition partition_of(int variable, const Style& style, const Terrain& terrain,
                            const SamplerOptions& options, Rng& rng) {
  if (!style.by_size || chance(rng, style.freedom)) return draw_partition(variable, terrain, options, rng);
  if (!terrain.variables[variable].sparse) {
    return cut_to(variable, style.part_bytes, style.axis, terrain, options, rng);
  }
  // A sparse variable's rows are few a step: cut to spread them, one shard a host or so.
  const VariableFacts& v = terrain.variables[variable];
  if (v.axes.empty() || options.max_shards < 2 || chance(rng, 0.5)) return std::nullopt;
  const int64_t rows = terrain.graph.variables[variable].shape[0];
  const int64_t most = std::min<int64_t>({rows, options.max_shards, 2 * terrain.cluster.workers() + 2});
  return Partition{0, static_cast<int>(most < 2 ? 2 : between(rng, 2, most))};
}

// By variable: whether the style puts it on servers when it goes by size.
std::vector<bool> served_by_size(const Style& style, const Terrain& terrain) {
  std::vector<bool> served(terrain.variables.size());
  double all = 0, held = 0;
  for (const int i : terrain.dense) all += terrain.traffic[i];
  const bool large = style.split == Split::kLargeServed;
  const int count = static_cast<int>(terrain.dense_by_size.size());
  for (int k = 0; k < count && held < style.served * all; ++k) {
    const int variable = terrain.dense_by_size[large ? k : count - 1 - k];
    served[variable] = true;
    held += terrain.traffic[variable];
  }
  return served;
}

Synchronizer collective(bool sparse) {
  if (sparse) return AllGather{};
  return AllReduce{};
}

void choose_synchronizers(Strategy& strategy, const Style& style, const Terrain& terrain, Rng& rng) {
  const bool by_size = style.split == Split::kLargeServed || style.split == Split::kSmallServed;
  const std::vector<bool> by_bytes = by_size ? served_by_size(style, terrain) : std::vector<bool>();
  for (size_t i = 0; i < terrain.variables.size(); ++i) {
    const bool sparse = terrain.variables[i].sparse;
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

Order draw_order(Rng& rng) {
  static constexpr Order kOrders[] = {Order::kForward, Order::kForward, Order::kForward, Order::kReady,
                                      Order::kReady,   Order::kLarge,   Order::kRandom};
  return pick(rng, kOrders);
}

void set_priorities(Strategy& strategy, Order order, const Terrain& terrain, Rng& rng) {
  std::vector<int> place(terrain.variables.size(), -1);
  for (size_t i = 0; i < place.size(); ++i) {
    if (order == Order::kReady) place[i] = terrain.variables[i].ready;
    if (order == Order::kRandom) place[i] = static_cast<int>(below(rng, static_cast<int64_t>(place.size())));
  }
  if (order == Order::kLarge) {
    const auto& by_size = terrain.dense_by_size;
    for (size_t k = 0; k < by_size.size(); ++k) place[by_size[k]] = static_cast<int>(k);
    for (const int i : terrain.sparse) place[i] = 0;
  }
  for (size_t i = 0; i < place.size(); ++i) {
    for (Part& part : strategy.variables[i].parts) {
      part.priority = order == Order::kForward ? std::nullopt : std::optional<int>(place[i]);
    }
  }
}

Strategy sample_own(const Terrain& terrain, const SamplerOptions& options, Rng& rng) {
  const Style style = draw_style(terrain, rng);
  Strategy strategy = blank(terrain);
  for (size_t i = 0; i < terrain.variables.size(); ++i) {
    VariableConfig& config = strategy.variables[i];
    config.partition = partition_of(static_cast<int>(i), style, terrain, options, rng);
    config.parts.resize(config.partition ? config.partition->shards : 1);
  }
  choose_synchronizers(strategy, style, terrain, rng);
  place(strategy, parts_of(strategy, Kind::kServer, terrain), own_balancer(terrain, rng), terrain, rng);
  const auto reduced = parts_of(strategy, Kind::kAllReduce, terrain);
  merge(strategy, reduced, own_scheme(reduced.size(), terrain, options, rng), terrain, rng);
  route_groups(strategy, reduced, terrain, rng);
  set_priorities(strategy, draw_order(rng), terrain, rng);
  draw_compressors(strategy, terrain, options, rng);
  renumber(strategy, terrain);
  return strategy;
}

}  // namespace entrain::strategy::sampling
