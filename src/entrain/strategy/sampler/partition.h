// How a variable is cut.
#pragma once

#include <cstdint>
#include <optional>

#include "entrain/strategy/sampler/domain_facts.h"
#include "entrain/strategy/sampler/draw.h"
#include "entrain/strategy/sampler/sampler.h"

namespace entrain::strategy::sampling {

using MaybePartition = std::optional<Partition>;

// AutoSync's: cut or not by size, then any axis, then 2 to min(dimension, max_shards) shards.
MaybePartition draw_partition(int variable, const DomainFacts& facts, const SamplerOptions& options,
                              Rng& rng);

enum class AxisRule { kFirst, kLongest, kAny };

// Parts of about `part_bytes` of traffic (0: whole), as even as the axis allows.
MaybePartition cut_to(int variable, int64_t part_bytes, AxisRule rule, const DomainFacts& facts,
                      const SamplerOptions& options, Rng& rng);

// Cuts `config` anew. New parts take after the old ones in their place, so a mix of synchronizers stays one.
void recut(VariableConfig& config, const MaybePartition& partition);

// What a part may weigh: none, 0.5 to 16 MB.
int64_t draw_part_bytes(const DomainFacts& facts, Rng& rng);

}  // namespace entrain::strategy::sampling
