// Which parts travel as one message, and over which topology.
#pragma once

#include <vector>

#include "entrain/strategy/sampler/domain_facts.h"
#include "entrain/strategy/sampler/draw.h"
#include "entrain/strategy/sampler/sampler.h"

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
MergeScheme published_scheme(size_t parts, const DomainFacts& facts, const SamplerOptions& options, Rng& rng);
// Mostly kFill, from every part alone to 32 MB.
MergeScheme own_scheme(size_t parts, const DomainFacts& facts, const SamplerOptions& options, Rng& rng);

// Gives each of `parts` (all-reduced, in data-flow order) its group, from `first` on. Parts of several dtypes
// may get one number: renumber() parts them.
void merge(Strategy& strategy, const std::vector<PartRef>& parts, const MergeScheme& scheme,
           const DomainFacts& facts, Rng& rng);

// A topology, and the hosts in ring order (empty: as listed).
struct GroupTopology {
  Topology topology = Topology::kAuto;
  std::vector<int> ring_order;
};
GroupTopology draw_group_topology(const DomainFacts& facts, Rng& rng);
// Topologies for all groups: one for all, one for small and one for large ones, or one per group.
void choose_topologies(Strategy& strategy, const std::vector<PartRef>& parts, const DomainFacts& facts,
                       Rng& rng);

// Numbers groups from 0 as they appear, and splits those that could not travel as one message (kind, dtype,
// topology, ring order). All-gathers get a number each. Equal strategies become equal values.
// Returns how many groups there are.
int renumber(Strategy& strategy, const DomainFacts& facts);

// The first number above all merge groups in use.
int groups_above(const Strategy& strategy);

}  // namespace entrain::strategy::sampling
