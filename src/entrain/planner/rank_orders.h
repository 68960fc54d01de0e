// Orders in which ranks may be given to cells. The planner gives the first ranks of an order to the last
// layers, and need not use all of them.
#pragma once

#include <vector>

#include "entrain/planner/estimate.h"

namespace entrain::planner {

// Hosts stay together. By speed, by link, as listed, and each of these backwards, also of the best half,
// quarter, ... of the hosts; orders whose ranks are alike place by place are left out.
// Where hosts have several ranks also each order with the ranks of a host far from each other.
std::vector<std::vector<int>> rank_orders(const Estimator& estimator);

// How many ranks a cell may have: all up to 8 ranks, else powers of two, and powers of two of whole hosts;
// always all of them.
std::vector<int> cell_widths(const Estimator& estimator, int ranks);

}  // namespace entrain::planner
