// AutoSync's space and heuristics. Variable by variable: cut or not, axis, shards, synchronizer of each part;
// then over all parts: destinations by a balancer, merge groups by a scheme, both drawn.
#include "entrain/strategy/sampler/grouping.h"
#include "entrain/strategy/sampler/partition.h"
#include "entrain/strategy/sampler/placement.h"
#include "entrain/strategy/sampler/spaces.h"

namespace entrain::strategy::sampling {

Strategy sample_published(const Terrain& terrain, const SamplerOptions& options, Rng& rng) {
  Strategy strategy = blank(terrain);
  for (size_t i = 0; i < terrain.variables.size(); ++i) {
    VariableConfig& config = strategy.variables[i];
    config.partition = draw_partition(static_cast<int>(i), terrain, options, rng);
    config.parts.resize(config.partition ? config.partition->shards : 1);
    for (Part& part : config.parts) {
      if (!terrain.variables[i].sparse && chance(rng, 0.5)) {
        part.synchronizer = AllReduce{};
      } else {
        // A proxy changes nothing where every host has one worker.
        part.synchronizer = ParameterServer{"", terrain.shared_hosts && chance(rng, 0.5), true, 0};
      }
    }
  }
  place(strategy, parts_of(strategy, Kind::kServer, terrain), published_balancer(terrain, rng), terrain, rng);
  const auto reduced = parts_of(strategy, Kind::kAllReduce, terrain);
  merge(strategy, reduced, published_scheme(reduced.size(), terrain, options, rng), terrain, rng);
  renumber(strategy, terrain);
  return strategy;
}

void hold_to_max_groups(Strategy& strategy, const Terrain& terrain, const SamplerOptions& options, Rng& rng) {
  if (options.space != Space::kPublished || renumber(strategy, terrain) <= options.max_groups) return;
  const auto reduced = parts_of(strategy, Kind::kAllReduce, terrain);
  merge(strategy, reduced, published_scheme(reduced.size(), terrain, options, rng), terrain, rng);
}

}  // namespace entrain::strategy::sampling
