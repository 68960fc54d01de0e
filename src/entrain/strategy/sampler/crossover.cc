// Each variable from one of two parents.
#include <algorithm>

#include "entrain/strategy/sampler/grouping.h"
#include "entrain/strategy/sampler/spaces.h"

namespace entrain::strategy::sampling {
namespace {

void shift_groups(VariableConfig& config, int by) {
  for (Part& part : config.parts) {
    if (auto* reduce = std::get_if<AllReduce>(&part.synchronizer)) reduce->group += by;
  }
}

}  // namespace

Strategy crossed(const Strategy& a, const Strategy& b, const DomainFacts& facts,
                 const SamplerOptions& options, Rng& rng) {
  Strategy child = a;
  const auto count = static_cast<int64_t>(child.variables.size());
  // Front layers from one and back layers from the other, or variable by variable.
  const bool one_cut = chance(rng, 0.5);
  const int64_t cut = one_cut && count > 0 ? below(rng, count) : 0;
  // b's groups stay its own, or join a's of the same number where they can.
  const int shift = chance(rng, 0.5) ? groups_above(a) : 0;
  for (int64_t i = 0; i < count; ++i) {
    if (one_cut ? i < cut : chance(rng, 0.5)) continue;
    child.variables[i] = b.variables[i];
    shift_groups(child.variables[i], shift);
  }
  hold_to_max_groups(child, facts, options, rng);
  renumber(child, facts);
  return child;
}

}  // namespace entrain::strategy::sampling
