#include "entrain/strategy/sampler/compressors.h"

#include "entrain/strategy/sampler/mutation.h"

namespace entrain::strategy::sampling {
namespace {

Compression pick_compression(const SamplerOptions& options, Rng& rng) {
  const auto place = static_cast<size_t>(below(rng, static_cast<int64_t>(options.compressors.size()) + 1));
  return place < options.compressors.size() ? options.compressors[place] : Compression{};
}

// Sparse rows and other types travel as they are.
bool compressible(int variable, const DomainFacts& facts) {
  const graph::Variable& v = facts.graph.variables[variable];
  return !v.sparse && v.dtype == "float32";
}

void compress(Strategy& strategy, int variable, const Compression& compression, const DomainFacts& facts) {
  if (!compressible(variable, facts)) return;
  for (Part& part : strategy.variables[variable].parts) set_compression(part.synchronizer, compression);
}

}  // namespace

void draw_compressors(Strategy& strategy, const DomainFacts& facts, const SamplerOptions& options, Rng& rng) {
  if (options.compressors.empty()) return;
  const Compression compression = pick_compression(options, rng);
  const auto& by_size = facts.dense_by_size;
  const bool all = by_size.empty() || chance(rng, 0.7);
  const auto count =
      all ? by_size.size() : static_cast<size_t>(between(rng, 1, static_cast<int64_t>(by_size.size())));
  for (size_t k = 0; k < count; ++k) compress(strategy, by_size[k], compression, facts);
}

void drop_impossible_compressors(Strategy& strategy, const DomainFacts& facts) {
  for (size_t i = 0; i < strategy.variables.size(); ++i) {
    if (compressible(static_cast<int>(i), facts)) continue;
    for (Part& part : strategy.variables[i].parts) set_compression(part.synchronizer, {});
  }
}

// Of the whole strategy, or of one variable.
bool change_compressor(Mutation& m) {
  if (m.options.compressors.empty()) return false;
  const Strategy before = m.strategy;
  const Compression compression = pick_compression(m.options, m.rng);
  if (chance(m.rng, 0.5)) {
    for (const int variable : m.facts.dense_by_size) compress(m.strategy, variable, compression, m.facts);
  } else {
    compress(m.strategy, m.draw_variable(), compression, m.facts);
  }
  return m.strategy != before;
}

}  // namespace entrain::strategy::sampling
