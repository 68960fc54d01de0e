#include "entrain/tuner/online/micro_batches.h"

#include <limits>

#include "entrain/tuner/shape_pricer.h"

namespace entrain::tuner {

int micro_batches_for(const dataset::Domain& domain, const ShapeSearchOptions& options) {
  constexpr int kPlanned = 8;  // shapes that are simulated for each M
  const int workers = domain.cluster.workers();
  int best = workers;
  double best_s = std::numeric_limits<double>::infinity();
  for (const int of_each : {1, 2, 4, 8}) {
    const int count = of_each * workers;
    // Only where they are of one size does each shape have the same ones.
    if (of_each > 1 && options.pricer.examples % count != 0) continue;
    PricerOptions pricer = options.pricer;
    pricer.micro_batches = count;
    const ShapePricer fixed(domain.graph, domain.cluster, options.start, pricer);
    const auto priced = fixed.price(fixed.planned(kPlanned));
    if (priced.empty() || priced.front().seconds >= best_s) continue;
    best_s = priced.front().seconds;
    best = count;
  }
  return best;
}

}  // namespace entrain::tuner
