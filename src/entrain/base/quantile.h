// Quantiles of measured values.
#pragma once

#include <vector>

namespace entrain {

// p-th quantile (0..1) of `values`, by linear interpolation. Requires: not empty.
double quantile(std::vector<double> values, double p);

// quantile(values, 0.5): the mean of the two in the middle where their number is even. Requires: not empty.
double median(std::vector<double> values);

}  // namespace entrain
