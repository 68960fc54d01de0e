#include "entrain/pipeline/plan/partition.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "entrain/base/error.h"

namespace entrain::pipeline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// reach[k][i]: the last bound at which cell k may end when it begins at layer i; i itself if nowhere.
using Reach = std::vector<std::vector<int>>;

void check_options(const MinMaxOptions& options, int cells) {
  if (!options.speed.empty() && static_cast<int>(options.speed.size()) != cells) {
    bad_input("{} speeds: must be {}, one a cell", options.speed.size(), cells);
  }
  for (const double speed : options.speed) {
    if (!(speed > 0) || std::isinf(speed)) bad_input("speed {}: must be a finite number above 0", speed);
  }
  if (options.memory && static_cast<int>(options.memory_limit.size()) != cells) {
    bad_input("{} memory limits: must be {}, one a cell", options.memory_limit.size(), cells);
  }
}

// Costs and speeds, with the time of any cell at hand.
class Times {
 public:
  Times(const std::vector<double>& costs, int cell_count, const std::vector<double>& speed)
      : layers(static_cast<int>(costs.size())),
        cells(cell_count),
        speed_(speed),
        prefix_(costs.size() + 1, 0) {
    std::partial_sum(costs.begin(), costs.end(), prefix_.begin() + 1);
    if (speed_.empty()) speed_.assign(cell_count, 1);
  }

  // Of cell `cell` with the layers begin..end-1. Rounding never makes a larger range cheaper.
  double operator()(int begin, int end, int cell) const {
    return (prefix_[end] - prefix_[begin]) / speed_[cell];
  }

  double speed(int cell) const { return speed_[cell]; }

  const int layers;
  const int cells;

 private:
  std::vector<double> speed_;
  std::vector<double> prefix_;
};

std::vector<int> balance_of(const std::vector<int>& bounds) {
  std::vector<int> balance;
  for (size_t k = 0; k + 1 < bounds.size(); ++k) balance.push_back(bounds[k + 1] - bounds[k]);
  return balance;
}

// Added up cell by cell in least_squares()' order, so that both round alike.
double sum_of_squares(const Times& time, const std::vector<int>& bounds) {
  double sum = 0;
  for (int k = 0; k < time.cells; ++k) {
    const double t = time(bounds[k], bounds[k + 1], k);
    sum += t * t;
  }
  return sum;
}

// Bounds of the partition within `reach` that has the least sum of squared times. `known` is any within
// `reach`; what is already worse than it is not pursued.
std::vector<int> least_squares(const Times& time, const Reach& reach, const std::vector<int>& known) {
  const double enough = sum_of_squares(time, known);
  std::vector<double> best(time.layers + 1, kInfinity), next;
  std::vector<std::vector<int>> from(time.cells, std::vector<int>(time.layers + 1, -1));
  best[0] = 0;
  for (int k = 0; k < time.cells; ++k) {
    next.assign(time.layers + 1, kInfinity);
    for (int i = k; i < time.layers; ++i) {
      if (best[i] == kInfinity) continue;
      // The cells after this one need a layer each.
      const int last = std::min(reach[k][i], time.layers - (time.cells - k - 1));
      for (int j = i + 1; j <= last; ++j) {
        const double t = time(i, j, k);
        const double sum = best[i] + t * t;
        if (sum > enough) break;
        if (sum < next[j]) {
          next[j] = sum;
          from[k][j] = i;
        }
      }
    }
    best.swap(next);
  }
  std::vector<int> bounds(time.cells + 1, time.layers);
  for (int k = time.cells - 1; k >= 0; --k) bounds[k] = from[k][bounds[k + 1]];
  return bounds;
}

// Where a cell may end if its time must not exceed `limit`, nor its end `within`.
Reach reach_in_time(const Times& time, double limit, const Reach& within) {
  Reach reach(time.cells, std::vector<int>(time.layers));
  std::vector<int> ends(time.layers);
  for (int k = 0; k < time.cells; ++k) {
    if (k == 0 || time.speed(k) != time.speed(k - 1)) {  // else they are those of the cell before
      int end = 0;
      for (int i = 0; i < time.layers; ++i) {
        end = std::max(end, i);
        while (end < time.layers && time(i, end + 1, k) <= limit) ++end;
        ends[i] = end;
      }
    }
    for (int i = 0; i < time.layers; ++i) reach[k][i] = std::min(ends[i], within[k][i]);
  }
  return reach;
}

// The largest end in begin..layers for which `fits` holds; `fits(begin)` is taken to hold, and `fits` not
// to hold again after it fails. Few calls where `guess` is near.
template <typename Fits>
int last_that_fits(int begin, int layers, int guess, const Fits& fits) {
  int good = begin, bad = layers + 1;
  for (int step = 1, at = std::clamp(guess, begin + 1, layers); at > good && at < bad; step *= 2) {
    if (fits(at)) {
      good = at;
      at += step;
    } else {
      bad = at;
      at -= step;
    }
  }
  while (bad - good > 1) {
    const int at = good + (bad - good) / 2;
    (fits(at) ? good : bad) = at;
  }
  return good;
}

// Where a cell may end if its memory must not exceed its limit and `extra_bytes`.
Reach reach_in_memory(int layers, int cells, const MinMaxOptions& options, int64_t extra_bytes) {
  Reach reach(cells, std::vector<int>(layers, layers));
  if (!options.memory) return reach;
  for (int k = 0; k < cells; ++k) {
    const int64_t limit = options.memory_limit[k] + extra_bytes;
    int end = 0;  // that of the layer before is a good guess
    for (int i = 0; i < layers; ++i) {
      end = last_that_fits(i, layers, end, [&](int at) { return options.memory(i, at - 1, k) <= limit; });
      reach[k][i] = end;
    }
  }
  return reach;
}

// Bounds of some partition within `reach`; empty if there is none. Cells cover 0..layers exactly when the
// last bound is reachable: O(cells * layers), since what is reachable from one bound is an interval.
std::vector<int> any_partition(int layers, int cells, const Reach& reach) {
  std::vector<std::vector<int>> from(cells, std::vector<int>(layers + 1, -1));
  for (int k = 0; k < cells; ++k) {
    int filled = 0;  // bounds up to here have their `from`, if they have one
    for (int i = 0; i < layers; ++i) {
      const bool begins_here = k == 0 ? i == 0 : from[k - 1][i] >= 0;
      if (!begins_here) continue;
      for (int j = std::max(filled, i) + 1; j <= reach[k][i]; ++j) from[k][j] = i;
      filled = std::max(filled, reach[k][i]);
    }
  }
  if (from[cells - 1][layers] < 0) return {};
  std::vector<int> bounds(cells + 1, layers);
  for (int k = cells - 1; k >= 0; --k) bounds[k] = from[k][bounds[k + 1]];
  return bounds;
}

double max_time(const Times& time, const std::vector<int>& bounds) {
  double most = 0;
  for (int k = 0; k < time.cells; ++k) most = std::max(most, time(bounds[k], bounds[k + 1], k));
  return most;
}

// Bounds of a partition within `within` whose slowest cell is as fast as can be; requires that there is one.
// Bisection ends when no double lies between a limit that fails and a time that a partition attains.
std::vector<int> least_max_time(const Times& time, const Reach& within) {
  std::vector<int> best = any_partition(time.layers, time.cells, within);
  double attained = max_time(time, best);
  double fails = -1;
  while (true) {
    const double middle = fails < 0 ? 0 : fails + (attained - fails) / 2;
    if (!(middle > fails && middle < attained)) return best;
    auto bounds = any_partition(time.layers, time.cells, reach_in_time(time, middle, within));
    if (bounds.empty()) {
      fails = middle;
    } else {
      attained = max_time(time, bounds);
      best = std::move(bounds);
    }
  }
}

int64_t worst_excess(const std::vector<int>& bounds, const MinMaxOptions& options, int* worst_cell) {
  int64_t worst = std::numeric_limits<int64_t>::min();
  for (int k = 0; k + 1 < static_cast<int>(bounds.size()); ++k) {
    const int64_t excess = options.memory(bounds[k], bounds[k + 1] - 1, k) - options.memory_limit[k];
    if (excess > worst) {
      worst = excess;
      *worst_cell = k;
    }
  }
  return worst;
}

// Least number of bytes that every limit must be raised by for a partition to fit.
int64_t least_shortfall(int layers, int cells, const MinMaxOptions& options) {
  int ignored = 0;
  int64_t fails = 0;
  int64_t enough =
      worst_excess(any_partition(layers, cells, reach_in_memory(layers, cells, {}, 0)), options, &ignored);
  while (enough - fails > 1) {
    const int64_t middle = fails + (enough - fails) / 2;
    const auto bounds = any_partition(layers, cells, reach_in_memory(layers, cells, options, middle));
    if (bounds.empty()) {
      fails = middle;
    } else {
      enough = std::max(fails + 1, worst_excess(bounds, options, &ignored));
    }
  }
  return enough;
}

}  // namespace

void check_costs(const std::vector<double>& costs, int cells) {
  const int layers = static_cast<int>(costs.size());
  if (cells < 1) bad_input("cells {}: must be at least 1", cells);
  if (cells > layers) bad_input("cells {}: must be at most the {} layers of the model", cells, layers);
  for (int i = 0; i < layers; ++i) {
    if (!(costs[i] >= 0) || std::isinf(costs[i])) {
      bad_input("cost of layer {} is {}: must be a finite number from 0", i, costs[i]);
    }
  }
}

std::vector<int> min_variance(const std::vector<double>& costs, int cells) {
  check_costs(costs, cells);
  const Times time(costs, cells, {});
  const Reach anywhere = reach_in_memory(time.layers, cells, {}, 0);
  return balance_of(least_squares(time, anywhere, least_max_time(time, anywhere)));
}

Partition min_max(const std::vector<double>& costs, int cells, const MinMaxOptions& options) {
  check_costs(costs, cells);
  check_options(options, cells);
  const Times time(costs, cells, options.speed);
  Partition result;
  Reach within = reach_in_memory(time.layers, cells, options, 0);
  if (any_partition(time.layers, cells, within).empty()) {
    result.shortfall_bytes = least_shortfall(time.layers, cells, options);
    within = reach_in_memory(time.layers, cells, options, result.shortfall_bytes);
  }
  const auto fastest = least_max_time(time, within);
  const auto bounds = least_squares(time, reach_in_time(time, max_time(time, fastest), within), fastest);
  result.balance = balance_of(bounds);
  result.max_time = max_time(time, bounds);
  if (!result.fits()) worst_excess(bounds, options, &result.shortfall_cell);
  return result;
}

bool can_fit(int layers, int cells, const MinMaxOptions& options, int64_t extra_bytes) {
  check_options(options, cells);
  return !any_partition(layers, cells, reach_in_memory(layers, cells, options, extra_bytes)).empty();
}

std::vector<int> parse_balance(const std::string& text, int layers, int cells) {
  std::vector<int> balance;
  int64_t sum = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int value = 0;
    const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + end, value);
    if (error != std::errc() || rest != text.data() + end || value < 1) {
      bad_input("balance '{}': '{}' must be a whole number of layers from 1, as in 3,5,4", text,
                text.substr(begin, end - begin));
    }
    balance.push_back(value);
    sum += value;
    begin = end + 1;
  }
  if (static_cast<int>(balance.size()) != cells) {
    bad_input("balance '{}': names {} cells, must be {}", text, balance.size(), cells);
  }
  if (sum != layers) bad_input("balance '{}': sums to {} layers, must be the model's {}", text, sum, layers);
  return balance;
}

std::vector<double> cell_costs(const std::vector<double>& costs, const std::vector<int>& balance) {
  std::vector<double> sums;
  auto layer = costs.begin();
  for (const int layers : balance) {
    sums.push_back(std::accumulate(layer, layer + layers, 0.0));
    layer += layers;
  }
  return sums;
}

}  // namespace entrain::pipeline
