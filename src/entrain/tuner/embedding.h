// A strategy as a short vector: where its bytes go, in messages of which size, in which order. Two strategies
// are similar when their vectors point the same way; the correction (correction.h) learns over the same.
#pragma once

#include <cstdint>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/simulator/parts.h"
#include "entrain/strategy/strategy.h"

namespace entrain::tuner {

using Vector = std::vector<double>;

// Thread-safe. Entries lie between 0 and 1; most are shares of the step's bytes.
class Embedder {
 public:
  Embedder(const graph::Graph& graph, const cluster::Cluster& cluster);

  // Requires: the strategy is valid and canonical (strategy::Sampler::canonical).
  Vector embed(const strategy::Strategy& strategy) const;
  size_t size() const;
  // Which kind of strategy it is: where most bytes go, in messages of which size, in forward's order or not.
  int niche(const Vector& embedding) const;

 private:
  simulator::PartWalk walk_;
};

// Cosine of the angle; 0 when one is all zero.
double similarity(const Vector& a, const Vector& b);

// Equal for equal strategies, whatever their id. Requires: canonical.
uint64_t fingerprint(const strategy::Strategy& strategy);

}  // namespace entrain::tuner
