#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "entrain/base/error.h"
#include "entrain/base/near_equal.h"
#include "entrain/pipeline/plan/partition.h"

namespace entrain::pipeline {
namespace {

// The smallest of `sums` that lies closest to `to`.
int closest_smallest(const std::vector<double>& sums, int to) {
  int found = static_cast<int>(std::min_element(sums.begin(), sums.end()) - sums.begin());
  for (int k = found + 1; k < static_cast<int>(sums.size()); ++k) {
    if (sums[k] == sums[found] && std::abs(k - to) < std::abs(found - to)) found = k;
  }
  return found;
}

// The heuristic may empty a cell of cost 0; a neighbour then gives it a layer.
void fill_empty_cells(std::vector<int>* bounds) {
  const int cells = static_cast<int>(bounds->size()) - 1;
  for (int k = 1; k < cells; ++k) (*bounds)[k] = std::max((*bounds)[k], (*bounds)[k - 1] + 1);
  for (int k = cells - 1; k > 0; --k) (*bounds)[k] = std::min((*bounds)[k], (*bounds)[k + 1] - 1);
}

}  // namespace

std::vector<int> block_partition(const std::vector<double>& costs, int cells) {
  check_costs(costs, cells);
  const int layers = static_cast<int>(costs.size());
  const double one_layer = *std::max_element(costs.begin(), costs.end());
  std::vector<int> bounds;
  for (int k = 0; k <= cells; ++k) bounds.push_back(static_cast<int>(spread_begin(layers, cells, k)));

  std::vector<double> sums(cells);
  int largest = -1;
  // Each layer moves less than once across each cell; the cap is for ties that rounding breaks unevenly.
  for (int64_t moves_left = static_cast<int64_t>(layers) * cells; moves_left > 0; --moves_left) {
    for (int k = 0; k < cells; ++k) {
      sums[k] = std::accumulate(costs.begin() + bounds[k], costs.begin() + bounds[k + 1], 0.0);
    }
    if (largest < 0) largest = static_cast<int>(std::max_element(sums.begin(), sums.end()) - sums.begin());
    const int smallest = closest_smallest(sums, largest);
    if (sums[largest] <= sums[smallest] + one_layer) break;
    // The neighbour towards the largest gives its nearest layer. The largest is fixed until it gives one.
    const bool from_left = largest < smallest;
    if (from_left) {
      --bounds[smallest];
    } else {
      ++bounds[smallest + 1];
    }
    if (smallest + (from_left ? -1 : 1) == largest) largest = -1;
  }
  fill_empty_cells(&bounds);
  std::vector<int> balance;
  for (int k = 0; k < cells; ++k) balance.push_back(bounds[k + 1] - bounds[k]);
  return balance;
}

}  // namespace entrain::pipeline
