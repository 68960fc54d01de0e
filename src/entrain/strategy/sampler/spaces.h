// The two spaces, and moves within them. Results are renumber()ed and pass validate().
#pragma once

#include "entrain/strategy/sampler/draw.h"
#include "entrain/strategy/sampler/sampler.h"
#include "entrain/strategy/sampler/terrain.h"

namespace entrain::strategy::sampling {

Strategy sample_published(const Terrain& terrain, const SamplerOptions& options, Rng& rng);
Strategy sample_own(const Terrain& terrain, const SamplerOptions& options, Rng& rng);
// Requires: parents are arranged().
Strategy mutated(Strategy parent, const Terrain& terrain, const SamplerOptions& options, Rng& rng);
Strategy crossed(const Strategy& a, const Strategy& b, const Terrain& terrain, const SamplerOptions& options,
                 Rng& rng);

// Merges anew when there are more groups than the published space has.
void hold_to_max_groups(Strategy& strategy, const Terrain& terrain, const SamplerOptions& options, Rng& rng);

// Who goes first.
enum class Order {
  kForward,  // unset: the next forward's order
  kReady,    // as backward makes them: nothing waits for what comes later
  kLarge,    // the most bytes first
  kRandom,
};
Order draw_order(Rng& rng);
void set_priorities(Strategy& strategy, Order order, const Terrain& terrain, Rng& rng);

}  // namespace entrain::strategy::sampling
