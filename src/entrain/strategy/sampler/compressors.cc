#include "entrain/strategy/sampler/compressors.h"

#include "entrain/strategy/sampler/mutation.h"

namespace entrain::strategy::sampling {
namespace {

Compression pick_compression(const SamplerOptions& options, Rng& rng) {
  const auto place = static_cast<size_t>(below(rng, static_cast<int64_t>(options.compressors.size()) + 1));
  return place < options.compressors.size() ? options.compressors[place] : Compression{};
}

// Sparse rows and other types travel as they are.
bool compressible(int variable, const Terrain& terrain) {
  const graph::Variable& v = terrain.graph.variables[variable];
  return !v.sparse && v.dtype == "float32";
}

void compress(Strategy& strategy, int variable, const Compression& compression, const Terrain& terrain) {
  if (!compressible(variable, terrain)) return;
  for (Part& part : strategy.variables[variable].parts) set_compression(part.synchronizer, compression);
}

}  // namespace

void draw_compressors(Strategy& strategy, const Terrain& terrain, const SamplerOptions& options, Rng& rng) {
  if (options.compressors.empty()) return;
  const Compression compression = pick_compression(options, rng);
  const auto& by_size = terrain.dense_by_size;
  const bool all = by_size.empty() || chance(rng, 0.7);
  const auto count =
      all ? by_size.size() : static_cast<size_t>(between(rng, 1, static_cast<int64_t>(by_size.size())));
  for (size_t k = 0; k < count; ++k) compress(strategy, by_size[k], compression, terrain);
}

void drop_impossible_compressors(Strategy& strategy, const Terrain& terrain) {
  for (size_t i = 0; i < strategy.variables.size(); ++i) {
    if (compressible(static_cast<int>(i), terrain)) continue;
    for (Part& part : strategy.variables[i].parts) set_compression(part.synchronizer, {});
  }
}

// Of the whole strategy, or of one variable.
bool change_compressor(Mutation& m) {
  if (m.options.compressors.empty()) return false;
  const Strategy before = m.strategy;
  const Compression compression = pick_compression(m.options, m.rng);
  if (chance(m.rng, 0.5)) {
    for (const int variable : m.terrain.dense_by_size) compress(m.strategy, variable, compression, m.terrain);
  } else {
    compress(m.strategy, m.draw_variable(), compression, m.terrain);
  }
  return m.strategy != before;
}

}  // namespace entrain::strategy::sampling
