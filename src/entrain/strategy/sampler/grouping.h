// Which parts travel as one message, and over which topology.
#pragma once

#include <vector>

#include "entrain/strategy/sampler/draw.h"
#include "entrain/strategy/sampler/sampler.h"
#include "entrain/strategy/sampler/terrain.h"

namespace entrain::strategy::sampling {

struct MergeScheme {
  enum class Rule {
    kChunk,     // `count` parts in variable order
    kRandom,    // one of `count` groups
    kBalanced,  // `count` groups, contiguous in variable order, near equal bytes
    kFill,      // in ready order until a group holds `bytes`; a part of `bytes` travels alone
  };
  Rule rule = Rule::kChunk;
  int64_t count = 1;
  int64_t bytes = 0;
};

// AutoSync's three, with at most max_groups groups.
MergeScheme published_scheme(size_t parts, const Terrain& terrain, const SamplerOptions& options, Rng& rng);
// Mostly kFill, from every part alone to 32 MB.
MergeScheme own_scheme(size_t parts, const Terrain& terrain, const SamplerOptions& options, Rng& rng);

// Gives each of `parts` (all-reduced, in data-flow order) its group, from `first` on. Parts of several dtypes
// may get one number: renumber() parts them.
void merge(Strategy& strategy, const std::vector<PartRef>& parts, const MergeScheme& scheme,
           const Terrain& terrain, Rng& rng);

// A topology, and the hosts in ring order (empty: as listed).
struct Route {
  Topology topology = Topology::kAuto;
  std::vector<int> ring_order;
};
Route draw_route(const Terrain& terrain, Rng& rng);
// Routes for all groups: one for all, one for small and one for large ones, or one a group.
void route_groups(Strategy& strategy, const std::vector<PartRef>& parts, const Terrain& terrain, Rng& rng);

// Numbers groups from 0 as they appear, and splits those that could not travel as one message (kind, dtype,
// topology, ring order). All-gathers get a number each. Equal strategies become equal values.
// Returns how many groups there are.
int renumber(Strategy& strategy, const Terrain& terrain);

// The first number above all merge groups in use.
int groups_above(const Strategy& strategy);

}  // namespace entrain::strategy::sampling
