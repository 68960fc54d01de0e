// Draws strategies from a space, changes one a little, crosses two. Same seed, same strategies.
#pragma once

#include <memory>
#include <string_view>

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/strategy/compression.h"
#include "entrain/strategy/sampler/draw.h"
#include "entrain/strategy/strategy.h"

namespace entrain::strategy {

namespace sampling {
struct DomainFacts;
}

enum class Space {
  kPublished,  // AutoSync's: PS or all-reduce per part, sparse always PS
  kOwn,        // wider: all-gather for sparse, topologies, ring orders, priorities, server-only hosts
};
Space space_from(std::string_view name);  // "published", "own"; throws InputError

struct SamplerOptions {
  Space space = Space::kOwn;
  // For models of 64 MB and more; below, in proportion (lower_bytes, upper_bytes).
  // Variables of at most `lower_bytes` are never cut, of at least `upper_bytes` always; between them with
  // probability (size - lower) / (upper - lower).
  int64_t lower_bytes = 1 << 20;
  int64_t upper_bytes = 16 << 20;
  int max_shards = 40;
  int max_groups = 20;  // published space
  // Own space: also these, which change the update; empty: none is ever used.
  std::vector<Compression> compressors = {};
};

// Every strategy it returns passes validate(). Thread-safe (const; the caller owns the Rng).
// `graph` and `cluster` outlive it.
class Sampler {
 public:
  Sampler(const graph::Graph& graph, const cluster::Cluster& cluster, SamplerOptions options = {});

  Strategy sample(Rng& rng) const;
  // A few (1 to 4) changes: another partition, synchronizer, destination, group, topology, priority. Stays in
  // the space when `parent` is in it. Requires: parents pass validate() for this (graph, cluster).
  Strategy mutate(const Strategy& parent, Rng& rng) const;
  // Each variable from one of the parents.
  Strategy crossover(const Strategy& a, const Strategy& b, Rng& rng) const;
  // The same strategy as a value that equals every other way to write it: merge groups numbered as they
  // appear, variables in the graph's order, no id. What the three above return is canonical.
  Strategy canonical(const Strategy& strategy) const;

 private:
  std::shared_ptr<const sampling::DomainFacts> facts_;
  SamplerOptions options_;
};

}  // namespace entrain::strategy
