#include "entrain/tuner/collection.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "entrain/strategy/builders/registry.h"

namespace entrain::tuner {

Collection::Collection(const dataset::Domain& domain, int trials, uint64_t seed)
    : domain_(domain),
      trials_(static_cast<size_t>(trials)),
      seed_(seed),
      own_(domain.graph, domain.cluster, {}),
      published_(domain.graph, domain.cluster, {.space = strategy::Space::kPublished}) {}

NextTrial Collection::next() const {
  const auto builders = strategy::names();
  const size_t k = domain_.trials.size();
  if (k >= trials_) return revisit(k);
  if (k < builders.size()) {
    return {strategy::build(builders[k], domain_.graph, domain_.cluster, seed_), "builder"};
  }
  strategy::Rng rng(seed_ * 1'000'003 + k);
  const auto good = best();
  NextTrial p = draw(good, rng);
  p.strategy.id = fmt::format("{}-{}", p.origin, k);
  return p;
}

NextTrial Collection::revisit(size_t k) const {
  std::vector<size_t> order(trials_);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 rng(seed_ * 1'000'003 + k / trials_);
  std::shuffle(order.begin(), order.end(), rng);
  return {domain_.trials[order[k % trials_]].strategy, "repeat"};
}

std::vector<const dataset::Trial*> Collection::best() const {
  std::vector<const dataset::Trial*> good;
  for (const auto& trial : domain_.trials) {
    if (trial.ok()) good.push_back(&trial);
  }
  std::sort(good.begin(), good.end(), [](const auto* a, const auto* b) { return a->step_s() < b->step_s(); });
  good.resize((good.size() + 3) / 4);
  return good;
}

NextTrial Collection::draw(const std::vector<const dataset::Trial*>& good, strategy::Rng& rng) const {
  const auto any = [&]() -> const dataset::Trial& { return *good[rng() % good.size()]; };
  switch (good.empty() ? 0 : rng() % 10) {
    case 0:
    case 1:
    case 2:
    case 3:
      return {own_.sample(rng), "random"};
    case 4:
    case 5:
      return {published_.sample(rng), "published"};
    case 6:
      return {own_.crossover(any().strategy, any().strategy, rng), "crossover"};
    default:
      return {own_.mutate(any().strategy, rng), "mutation"};
  }
}

}  // namespace entrain::tuner
