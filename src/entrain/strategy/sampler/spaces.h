// The two spaces, and moves within them. Results are renumber()ed and pass validate().
#pragma once

#include "entrain/strategy/sampler/domain_facts.h"
#include "entrain/strategy/sampler/draw.h"
#include "entrain/strategy/sampler/sampler.h"

namespace entrain::strategy::sampling {

Strategy sample_published(const DomainFacts& facts, const SamplerOptions& options, Rng& rng);
Strategy sample_own(const DomainFacts& facts, const SamplerOptions& options, Rng& rng);
// Requires: parents are arranged().
Strategy mutated(Strategy parent, const DomainFacts& facts, const SamplerOptions& options, Rng& rng);
Strategy crossed(const Strategy& a, const Strategy& b, const DomainFacts& facts,
                 const SamplerOptions& options, Rng& rng);

// Merges anew when there are more groups than the published space has.
void hold_to_max_groups(Strategy& strategy, const DomainFacts& facts, const SamplerOptions& options,
                        Rng& rng);

// Who goes first.
enum class PriorityOrder {
  kForward,  // unset: the next forward's order
  kReady,    // as backward makes them: nothing waits for what comes later
  kLarge,    // the most bytes first
  kRandom,
};
PriorityOrder draw_priority_order(Rng& rng);
void set_priorities(Strategy& strategy, PriorityOrder order, const DomainFacts& facts, Rng& rng);

}  // namespace entrain::strategy::sampling
