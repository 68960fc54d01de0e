#include "entrain/strategy/sampler/placement.h"

#include <algorithm>

namespace entrain::strategy::sampling {
namespace {

// Only these hosts keep their weight.
void keep_only(std::vector<double>& weights, const std::vector<int>& hosts) {
  std::vector<double> kept(weights.size());
  for (const int host : hosts) kept[host] = weights[host];
  weights = std::move(kept);
}

std::vector<int> fastest(const DomainFacts& facts, size_t count) {
  const auto& hosts = facts.fastest_hosts;
  return {hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(std::min(count, hosts.size()))};
}

}  // namespace

Balancer published_balancer(const DomainFacts& facts, Rng& rng) {
  const std::vector<double> even(facts.bandwidth.size(), 1.0);
  switch (below(rng, 3)) {
    case 0:
      return {Balancer::Rule::kRandom, even};
    case 1:
      return {Balancer::Rule::kGreedy, even};
    default:
      return {Balancer::Rule::kSorted, facts.bandwidth};
  }
}

Balancer own_balancer(const DomainFacts& facts, Rng& rng) {
  Balancer balancer{Balancer::Rule::kSorted, facts.bandwidth};
  if (chance(rng, 0.3)) balancer.rule = chance(rng, 0.3) ? Balancer::Rule::kRandom : Balancer::Rule::kGreedy;

  const int64_t weighting = below(rng, 10);  // half by bandwidth
  if (weighting >= 5 && weighting < 8) std::fill(balancer.weights.begin(), balancer.weights.end(), 1.0);
  if (weighting >= 8) {
    for (double& w : balancer.weights) w = unit(rng) + 0.01;
  }
  const double where = unit(rng);
  if (where < 0.35) {
    keep_only(balancer.weights, fastest(facts, 1));
  } else if (where < 0.45) {
    keep_only(balancer.weights, fastest(facts, 2));
  } else if (where < 0.75 && !facts.server_hosts.empty()) {
    keep_only(balancer.weights, facts.server_hosts);
  }
  return balancer;
}

void place(Strategy& strategy, std::vector<PartRef> parts, const Balancer& balancer, const DomainFacts& facts,
           Rng& rng) {
  if (balancer.rule == Balancer::Rule::kSorted) {
    std::stable_sort(parts.begin(), parts.end(),
                     [](const PartRef& a, const PartRef& b) { return a.bytes > b.bytes; });
  }
  std::vector<double> loads(balancer.weights.size());
  for (const PartRef& part : parts) {
    int host = -1;
    if (balancer.rule == Balancer::Rule::kRandom) {
      host = pick_weighted(rng, balancer.weights);
    } else {
      const auto cost = [&](int h) {
        return (loads[h] + static_cast<double>(part.bytes)) / balancer.weights[h];
      };
      for (int h = 0; h < static_cast<int>(loads.size()); ++h) {
        if (balancer.weights[h] > 0 && (host < 0 || cost(h) < cost(host))) host = h;
      }
    }
    loads[host] += static_cast<double>(part.bytes);
    std::get<ParameterServer>(part.in(strategy).synchronizer).destination = facts.cluster.hosts[host].address;
  }
}

}  // namespace entrain::strategy::sampling
