// Shares of the examples that end at the same time on all replicas of a cell.
#pragma once

#include <cstdint>
#include <vector>

#include "entrain/strategy/shape.h"

namespace entrain::planner {

// Whole examples by replica, so that the largest of busy_r + examples_r * seconds / speed_r is as small as
// can be; busy_r: what its rank computes of other cells. A replica may get none.
std::vector<int64_t> even_examples(int64_t examples, double seconds, const std::vector<double>& speed,
                                   const std::vector<double>& busy);

// Gives the cell such shares: none where they are equal. Replicas without examples leave it.
void give_even_shares(strategy::Cell& cell, int64_t examples, double seconds,
                      const std::vector<double>& speed, const std::vector<double>& busy);

}  // namespace entrain::planner
