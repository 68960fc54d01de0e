#include "entrain/strategy/sampler/partition.h"

#include <algorithm>

namespace entrain::strategy::sampling {
namespace {

int64_t most_shards(int variable, int axis, const DomainFacts& facts, const SamplerOptions& options) {
  return std::min<int64_t>(facts.graph.variables[variable].shape[axis], options.max_shards);
}

}  // namespace

MaybePartition draw_partition(int variable, const DomainFacts& facts, const SamplerOptions& options,
                              Rng& rng) {
  const VariableFacts& v = facts.variables[variable];
  if (v.axes.empty() || v.bytes <= options.lower_bytes || options.max_shards < 2) return std::nullopt;
  if (v.bytes < options.upper_bytes) {
    const double span = static_cast<double>(options.upper_bytes - options.lower_bytes);
    if (!chance(rng, static_cast<double>(v.bytes - options.lower_bytes) / span)) return std::nullopt;
  }
  const int axis = pick(rng, v.axes);
  return Partition{axis, static_cast<int>(between(rng, 2, most_shards(variable, axis, facts, options)))};
}

MaybePartition cut_to(int variable, int64_t part_bytes, AxisRule rule, const DomainFacts& facts,
                      const SamplerOptions& options, Rng& rng) {
  const VariableFacts& v = facts.variables[variable];
  if (v.axes.empty() || part_bytes <= 0 || 2 * v.traffic < 3 * part_bytes) return std::nullopt;
  int axis = v.axes.front();
  if (rule == AxisRule::kAny) axis = pick(rng, v.axes);
  if (rule == AxisRule::kLongest) {
    const auto& shape = facts.graph.variables[variable].shape;
    axis = *std::max_element(v.axes.begin(), v.axes.end(), [&](int a, int b) { return shape[a] < shape[b]; });
  }
  const int64_t wanted = (v.traffic + part_bytes / 2) / part_bytes;
  const int64_t shards = std::min(wanted, most_shards(variable, axis, facts, options));
  if (shards < 2) return std::nullopt;
  return Partition{axis, static_cast<int>(shards)};
}

void recut(VariableConfig& config, const MaybePartition& partition) {
  const size_t count = partition ? static_cast<size_t>(partition->shards) : 1;
  std::vector<Part> parts;
  parts.reserve(count);
  for (size_t i = 0; i < count; ++i) parts.push_back(config.parts[i * config.parts.size() / count]);
  config.partition = partition;
  config.parts = std::move(parts);
}

int64_t draw_part_bytes(const DomainFacts& facts, Rng& rng) {
  static constexpr int64_t kSizes[] = {0,       512 << 10, 1 << 20, 3 << 19, 2 << 20,
                                       3 << 20, 4 << 20,   6 << 20, 8 << 20, 16 << 20};
  return static_cast<int64_t>(facts.scale * static_cast<double>(pick(rng, kSizes)));
}

}  // namespace entrain::strategy::sampling
