// Which parts travel compressed.
#pragma once

#include "entrain/strategy/sampler/domain_facts.h"
#include "entrain/strategy/sampler/draw.h"
#include "entrain/strategy/sampler/sampler.h"

namespace entrain::strategy::sampling {

// One of options.compressors, or none, for the whole strategy, or for its large variables. Draws nothing when
// there are no compressors.
void draw_compressors(Strategy& strategy, const DomainFacts& facts, const SamplerOptions& options, Rng& rng);

// A change may have carried a compressor to a variable that cannot have it (sparse, not float32): takes it
// away.
void drop_impossible_compressors(Strategy& strategy, const DomainFacts& facts);

}  // namespace entrain::strategy::sampling
