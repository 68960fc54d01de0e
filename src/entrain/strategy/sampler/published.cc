// AutoSync's space and heuristics. Variable by variable: cut or not, axis, shards, synchronizer of each part;
// then over all parts: destinations by a balancer, merge groups by a scheme, both drawn.
#include "entrain/strategy/sampler/grouping.h"
#include "entrain/strategy/sampler/partition.h"
#include "entrain/strategy/sampler/placement.h"
#include "entrain/strategy/sampler/spaces.h"

namespace entrain::strategy::sampling {

Strategy sample_published(const DomainFacts& facts, const SamplerOptions& options, Rng& rng) {
  Strategy strategy = blank(facts);
  for (size_t i = 0; i < facts.variables.size(); ++i) {
    VariableConfig& config = strategy.variables[i];
    config.partition = draw_partition(static_cast<int>(i), facts, options, rng);
    config.parts.resize(config.partition ? config.partition->shards : 1);
    for (Part& part : config.parts) {
      if (!facts.variables[i].sparse && chance(rng, 0.5)) {
        part.synchronizer = AllReduce{};
      } else {
        // A proxy changes nothing where every host has one worker.
        part.synchronizer = ParameterServer{"", facts.shared_hosts && chance(rng, 0.5), true, 0};
      }
    }
  }
  place(strategy, parts_of(strategy, Kind::kServer, facts), published_balancer(facts, rng), facts, rng);
  const auto reduced = parts_of(strategy, Kind::kAllReduce, facts);
  merge(strategy, reduced, published_scheme(reduced.size(), facts, options, rng), facts, rng);
  renumber(strategy, facts);
  return strategy;
}

void hold_to_max_groups(Strategy& strategy, const DomainFacts& facts, const SamplerOptions& options,
                        Rng& rng) {
  if (options.space != Space::kPublished || renumber(strategy, facts) <= options.max_groups) return;
  const auto reduced = parts_of(strategy, Kind::kAllReduce, facts);
  merge(strategy, reduced, published_scheme(reduced.size(), facts, options, rng), facts, rng);
}

}  // namespace entrain::strategy::sampling
