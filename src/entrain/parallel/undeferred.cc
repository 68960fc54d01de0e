#include "entrain/parallel/undeferred.h"

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/layers/batch_norm.h"

namespace entrain::parallel {
namespace {

bool keeps_statistics(const layers::Layer& layer) {
  return layer.module && layers::has_undeferrable_statistics(*layer.module);
}

}  // namespace

bool any_undeferred(const layers::Sequence& sequence) {
  return std::any_of(sequence.layers.begin(), sequence.layers.end(), keeps_statistics);
}

void check_undeferred(const layers::Sequence& sequence, pipeline::Remat remat) {
  if (remat == pipeline::Remat::kNever) return;
  for (const layers::Layer& layer : sequence.layers) {
    if (!keeps_statistics(layer)) continue;
    bad_input("remat is {} and layer {} has a batch norm, whose statistics would move twice; allowed: never",
              pipeline::remat_name(remat), layer.name);
  }
}

void check_undeferred(const layers::Sequence& sequence, const strategy::Shape& shape) {
  check_undeferred(sequence, shape.remat);
  for (const strategy::Cell& cell : shape.cells) {
    for (int l = cell.begin; cell.replicas() > 1 && l < cell.end; ++l) {
      const layers::Layer& layer = sequence.layers[static_cast<size_t>(l)];
      if (!keeps_statistics(layer)) continue;
      bad_input(
          "layer {} ({}) has a batch norm, whose statistics its {} holders would move apart; allowed: one "
          "rank",
          l, layer.name, cell.replicas());
    }
  }
}

}  // namespace entrain::parallel
