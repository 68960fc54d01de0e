#include "entrain/planner/shares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

namespace entrain::planner {

std::vector<int64_t> even_examples(int64_t examples, double seconds, const std::vector<double>& speed,
                                   const std::vector<double>& busy) {
  // Where all end that get any, if examples could be cut: those that are busy beyond it get none.
  std::vector<bool> out(speed.size());
  double even = 0;
  for (bool again = true; again;) {
    double speeds = 0, done = 0;
    for (size_t r = 0; r < speed.size(); ++r) {
      if (out[r]) continue;
      speeds += speed[r];
      done += busy[r] * speed[r];
    }
    even = (done + static_cast<double>(examples) * seconds) / speeds;
    again = false;
    for (size_t r = 0; r < speed.size(); ++r) {
      if (out[r] || busy[r] < even) continue;
      out[r] = again = true;
    }
  }
  // What certainly ends by then, and the rest one by one to whoever would end first.
  std::vector<int64_t> counts(speed.size());
  int64_t left = examples;
  for (size_t r = 0; r < speed.size(); ++r) {
    if (out[r]) continue;
    counts[r] = static_cast<int64_t>(std::max(0.0, std::floor((even - busy[r]) * speed[r] / seconds - 1e-9)));
    left -= counts[r];
  }
  using Entry = std::pair<double, size_t>;  // when it would end with one more
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> next;
  const auto end = [&](size_t r) {
    return busy[r] + static_cast<double>(counts[r] + 1) * seconds / speed[r];
  };
  for (size_t r = 0; r < speed.size(); ++r) next.emplace(end(r), r);
  for (; left > 0; --left) {
    const size_t r = next.top().second;
    next.pop();
    ++counts[r];
    next.emplace(end(r), r);
  }
  return counts;
}

void give_even_shares(strategy::Cell& cell, int64_t examples, double seconds,
                      const std::vector<double>& speed, const std::vector<double>& busy) {
  cell.shares.clear();
  const bool alike = std::equal(speed.begin() + 1, speed.end(), speed.begin()) &&
                     std::equal(busy.begin() + 1, busy.end(), busy.begin());
  if (alike && examples >= cell.replicas()) return;
  const auto counts = even_examples(examples, seconds, speed, busy);
  std::vector<int> ranks;
  for (size_t r = 0; r < counts.size(); ++r) {
    if (counts[r] == 0) continue;
    ranks.push_back(cell.ranks[r]);
    cell.shares.push_back(static_cast<double>(counts[r]) / static_cast<double>(examples));
  }
  cell.ranks = std::move(ranks);
  if (std::equal(cell.shares.begin() + 1, cell.shares.end(), cell.shares.begin())) cell.shares.clear();
}

}  // namespace entrain::planner
