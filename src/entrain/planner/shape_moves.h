// Small changes of a shape, drawn at random: what local search tries.
#pragma once

#include <optional>
#include <random>

#include "entrain/planner/estimate.h"

namespace entrain::planner {

using Rng = std::mt19937_64;

// The shares of cell `cell` become those with which its ranks end at the same time, given what they compute
// of other cells. Ranks that would get nothing leave the cell, unless it would then have none.
void rebalance(const Estimator& estimator, strategy::Shape& shape, size_t cell);

// One change: a cut moves; a cell splits, on the same ranks, on two halves of them, or with one of them for
// the smaller part; two cells merge; a rank is added, removed, exchanged for another, or two change places;
// shares are balanced, equal, or one example moves; micro-batches double, halve, or one more or less;
// recomputation; schedule. Empty: the change that was drawn does not suit this shape. The result passes
// strategy::validate(); whether it fits in memory is not looked at.
std::optional<strategy::Shape> change(const Estimator& estimator, const strategy::Shape& shape, Rng& rng);

}  // namespace entrain::planner
