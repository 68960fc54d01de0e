#include "entrain/base/quantile.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace entrain {

double quantile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  const double place = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace entrain
