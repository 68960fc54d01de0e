// Batch norm whose statistics cannot wait for the end of a step (layers/batch_norm.h): where a shape would
// make them other than one process does, it is refused.
#pragma once

#include "entrain/layers/layer.h"
#include "entrain/pipeline/plan/remat.h"
#include "entrain/strategy/shape.h"

namespace entrain::parallel {

bool any_undeferred(const layers::Sequence& sequence);
// A pass that is computed again would move them twice. Throws InputError naming the layer.
void check_undeferred(const layers::Sequence& sequence, pipeline::Remat remat);
// As above; and each of several holders would move them by its own examples.
void check_undeferred(const layers::Sequence& sequence, const strategy::Shape& shape);

}  // namespace entrain::parallel
