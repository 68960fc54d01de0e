// Shapes that dynamic programming over disjoint ranks cannot reach: one host alone, data parallelism on some
// hosts, and PipeDream's "15-1", whose last layers (large and dense) are on one of the ranks that share the
// others, or whose first layers are (large embeddings). Whoever holds such layers gets fewer examples of the
// rest, so that all end together.
#pragma once

#include <vector>

#include "entrain/planner/estimate.h"

namespace entrain::planner {

// All layers on the order's first 1, 2, ... hosts, and on each single rank and host of a kind.
std::vector<strategy::Shape> whole_models(const Estimator& estimator,
                                          const std::vector<std::vector<int>>& orders);

// Layers before `head` and from `tail` on are on one rank `owner`, those between on all of `ranks`.
// Requires: 0 <= head < tail <= layers.
strategy::Shape around_one_owner(const Estimator& estimator, const std::vector<int>& ranks, int owner,
                                 int head, int tail, int micro_batches);

// "15-1" and its mirror: every cut, the order's first 2, 4, ... ranks and all of them, owners of every kind.
std::vector<strategy::Shape> co_located(const Estimator& estimator,
                                        const std::vector<std::vector<int>>& orders,
                                        const std::vector<int>& micro_batches);

}  // namespace entrain::planner
