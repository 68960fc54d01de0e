// Which host serves which part.
#pragma once

#include <vector>

#include "entrain/strategy/sampler/domain_facts.h"
#include "entrain/strategy/sampler/draw.h"

namespace entrain::strategy::sampling {

struct Balancer {
  enum class Rule {
    kRandom,  // any host, by weight
    kGreedy,  // in data-flow order, each part where (load + bytes) / weight is least
    kSorted,  // the same, the largest part first
  };
  Rule rule = Rule::kRandom;
  std::vector<double> weights;  // by host; 0: does not serve
};

// AutoSync's three: none (random), greedy by load, proportional to bandwidth and sorted by size.
Balancer published_balancer(const DomainFacts& facts, Rng& rng);
// Weights by bandwidth, even or at random; over all hosts, the one or two fastest, or those that only serve.
Balancer own_balancer(const DomainFacts& facts, Rng& rng);

// Requires: all of `parts` are on servers.
void place(Strategy& strategy, std::vector<PartRef> parts, const Balancer& balancer, const DomainFacts& facts,
           Rng& rng);

}  // namespace entrain::strategy::sampling
