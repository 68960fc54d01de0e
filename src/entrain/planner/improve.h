// Local search over shapes: small changes of the best ones so far, judged by a simulator.
//
//   score the starts; then repeat: change the best few at random; drop what was seen, what is not valid and
//   what does not fit; of many take half a batch by the closed form and half as they come; score the batch
#pragma once

#include <functional>
#include <vector>

#include "entrain/planner/estimate.h"
#include "entrain/simulator/simulator.h"
#include "entrain/strategy/strategy.h"

namespace entrain::planner {

// How a shape's variables are synchronized: the judge sees what it returns, with this shape set.
using SyncOf = std::function<strategy::Strategy(const strategy::Shape&)>;

struct ImproveOptions {
  uint64_t seed = 0;
  int evaluations = 2000;  // shapes that the judge scores, at most; the starts count
  int batch = 50;          // shapes per call of the judge
  int beam = 10;           // the best so far, whose changes are tried
  int patience = 10;       // batches without a better shape before it ends
};

struct Improved {
  strategy::Shape shape;
  double score = 0;  // the judge's; lower is better
};

// The best shapes found, best first, at most `beam`; never worse than the best of `starts` that are valid and
// fit. Shapes that the judge scores as not finite are refused. The same arguments and judge give the same
// result. Requires: each of `starts` passes strategy::validate().
std::vector<Improved> improve(const Estimator& estimator, const std::vector<strategy::Shape>& starts,
                              const simulator::Simulator& judge, const SyncOf& sync_of,
                              const ImproveOptions& options = {});

}  // namespace entrain::planner
