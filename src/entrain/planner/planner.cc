#include "entrain/planner/planner.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "entrain/planner/cell_program.h"
#include "entrain/planner/colocated.h"
#include "entrain/planner/rank_orders.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::planner {
namespace {

using strategy::Shape;

// Micro-batches per update: every number up to 8, powers of two and their halves between; multiples of ranks.
std::vector<int> default_micro_batches(int ranks, int64_t examples) {
  std::set<int64_t> counts;
  if (ranks <= 16) {
    for (int64_t m = 1; m <= 8; ++m) counts.insert(m);
    for (int64_t m = 12; m <= 96; m *= 2) counts.insert(m);
    for (int64_t m = 16; m <= 64; m *= 2) counts.insert(m);
  } else {
    for (int64_t m = 8; m < 2L * ranks; m *= 2) counts.insert(m);
  }
  for (const int times : {1, 2, 4}) counts.insert(static_cast<int64_t>(times) * ranks);
  counts.insert(std::min<int64_t>(examples, ranks));
  std::vector<int> result;
  for (const int64_t m : counts) {
    if (m <= examples) result.push_back(static_cast<int>(m));
  }
  return result;
}

bool on_one_host(const Estimator& estimator, const Shape& shape) {
  const auto ranks = shape.ranks();
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](int r) { return estimator.host_of(r) == estimator.host_of(ranks[0]); });
}

class Pool {
 public:
  explicit Pool(const Estimator& estimator) : estimator_(estimator) {}

  void add(Shape shape, const char* origin) {
    if (shape.micro_batches < shape.most_replicas() || shape.micro_batches > estimator_.examples()) return;
    if (!seen_.insert(strategy::to_text(shape)).second) return;
    const Estimate estimate = estimator_.of(shape);
    if (!estimate.fits()) return;
    best_ = std::min(best_, estimate.seconds);
    candidates_.push_back({std::move(shape), estimate.seconds, origin});
  }
  double best() const { return best_; }

  std::vector<Candidate> take(int most) {
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
    std::vector<Candidate> taken;
    std::set<std::string> kinds;  // the first of each is kept
    for (Candidate& c : candidates_) {
      bool first = kinds.insert(c.origin).second;
      if (on_one_host(estimator_, c.shape)) first = kinds.insert("one host").second || first;
      if (static_cast<int>(taken.size()) < most || first) taken.push_back(std::move(c));
    }
    return taken;
  }

 private:
  const Estimator& estimator_;
  std::set<std::string> seen_;
  std::vector<Candidate> candidates_;
  double best_ = 1e300;
};

void add_cells(const Estimator& estimator, const std::vector<int>& order, int micro_batches, bool recompute,
               int rests, Pool& pool) {
  const int ranks = static_cast<int>(order.size());
  const auto widths = cell_widths(estimator, ranks);
  CellProgram program(estimator, order, widths, micro_batches, recompute);
  // Both limits from 0, then in steps to the most; what alone is more than the best step is of no use.
  const double ratio = rests > 2 ? std::pow(2.0 * ranks, 1.0 / (rests - 2)) : 2;
  constexpr double kLateParts[] = {0, 1.0 / 64, 1.0 / 16, 1.0 / 4, 1};
  for (const double part : kLateParts) {
    const double late = part * program.most_late();
    if (part > 0 && late <= 0) break;
    double rest = 0;
    for (int i = 0; i < rests; ++i) {
      const double limit = 1.5 * pool.best();  // the closed form may see it otherwise
      if (rest + late >= limit) break;
      for (auto& choice : program.best(rest, late, widths, limit)) pool.add(std::move(choice.shape), "cells");
      if (program.most_rest() <= 0) break;
      rest = i == 0 ? program.most_rest() / (2.0 * ranks) : rest * ratio;
    }
  }
}

}  // namespace

std::vector<Candidate> plan_shapes(const graph::Graph& graph, const cluster::Cluster& cluster,
                                   int64_t examples, const PlanOptions& options) {
  const Estimator estimator(graph, cluster, examples, options.limits, options.overheads);
  const auto orders = rank_orders(estimator);
  const auto counts = options.micro_batches.empty() ? default_micro_batches(cluster.workers(), examples)
                                                    : options.micro_batches;
  const auto& memory = estimator.limits().memory_bytes;
  const bool limited = std::any_of(memory.begin(), memory.end(), [](double bytes) { return bytes > 0; });
  Pool pool(estimator);
  for (Shape& shape : whole_models(estimator, orders)) {
    Shape recomputed = shape;
    recomputed.remat = pipeline::Remat::kAlways;
    pool.add(std::move(shape), "whole model");
    if (limited) pool.add(std::move(recomputed), "whole model");
  }
  for (Shape& shape : co_located(estimator, orders, counts)) pool.add(std::move(shape), "co-located");
  for (const bool recompute : {false, true}) {
    if (recompute && !limited) break;  // it only takes time
    for (const auto& order : orders) {
      for (const int m : counts) add_cells(estimator, order, m, recompute, options.rests, pool);
    }
  }
  return pool.take(options.most);
}

}  // namespace entrain::planner
