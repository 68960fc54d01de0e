#include "entrain/strategy/sampler/sampler.h"

#include "entrain/base/error.h"
#include "entrain/strategy/sampler/domain_facts.h"
#include "entrain/strategy/sampler/grouping.h"
#include "entrain/strategy/sampler/spaces.h"

namespace entrain::strategy {

Space space_from(std::string_view name) {
  if (name == "published") return Space::kPublished;
  if (name == "own") return Space::kOwn;
  bad_input("space is \"{}\", allowed: published, own", name);
}

Sampler::Sampler(const graph::Graph& graph, const cluster::Cluster& cluster, SamplerOptions options)
    : facts_(std::make_shared<const sampling::DomainFacts>(graph, cluster)), options_(options) {
  const auto scaled = [&](int64_t bytes) {
    return static_cast<int64_t>(facts_->scale * static_cast<double>(bytes));
  };
  options_.lower_bytes = scaled(options_.lower_bytes);
  options_.upper_bytes = scaled(options_.upper_bytes);
}

Strategy Sampler::sample(Rng& rng) const {
  return options_.space == Space::kPublished ? sampling::sample_published(*facts_, options_, rng)
                                             : sampling::sample_own(*facts_, options_, rng);
}

Strategy Sampler::mutate(const Strategy& parent, Rng& rng) const {
  return sampling::mutated(sampling::arranged(parent, *facts_), *facts_, options_, rng);
}

Strategy Sampler::crossover(const Strategy& a, const Strategy& b, Rng& rng) const {
  return sampling::crossed(sampling::arranged(a, *facts_), sampling::arranged(b, *facts_), *facts_, options_,
                           rng);
}

Strategy Sampler::canonical(const Strategy& strategy) const {
  Strategy result = sampling::arranged(strategy, *facts_);
  sampling::renumber(result, *facts_);
  return result;
}

}  // namespace entrain::strategy
