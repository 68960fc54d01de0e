// In how many micro-batches a job cuts its updates, where that must not change while it trains.
#pragma once

#include "entrain/dataset/dataset.h"
#include "entrain/tuner/shape_search.h"

namespace entrain::tuner {

// M, as many for each rank that trains: with the fastest of the planned shapes, by simulation. Where dropout
// or batch norm is, other micro-batches are another update: with one M, every trial makes the same. Requires:
// the layers of `domain` have times.
int micro_batches_for(const dataset::Domain& domain, const ShapeSearchOptions& options);

}  // namespace entrain::tuner
