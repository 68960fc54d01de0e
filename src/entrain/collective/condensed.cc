#include "entrain/collective/condensed.h"

#include <algorithm>
#include <bit>

namespace entrain::collective {
namespace {

void add(Schedule& s, int round, int from, int to, bool reduce, int times) {
  s.transfers.push_back({round, from, to, 0, reduce});
  s.times.push_back(times);
}

// Everyone sends to the one `distance` ahead: what is to be summed, then what has been.
void twice(Schedule& s, const std::vector<int>& order, int round, size_t distance) {
  const size_t n = order.size();
  for (const bool reduce : {true, false}) {
    for (size_t i = 0; n > 1 && i < n; ++i) {
      add(s, round, order[i], order[(i + distance) % n], reduce, static_cast<int>(n) - 1);
    }
    ++round;
  }
}

Schedule around(const std::vector<int>& order, int world, size_t distance) {
  Schedule s{"condensed", world, static_cast<int>(order.size()), {}};
  twice(s, order, 0, distance);
  return s;
}

// Of a ring of n, of which two rounds are shown.
int hidden_rounds(size_t n) { return std::max(0, 2 * (static_cast<int>(n) - 1) - 2); }

}  // namespace

Schedule condensed_ring(const std::vector<int>& order, int world) {
  Schedule s = around(order, world, 1);
  s.hidden_rounds = hidden_rounds(order.size());
  return s;
}

Schedule condensed_direct(const std::vector<int>& ranks, int world) {
  return around(ranks, world, ranks.size() / 2);
}

Schedule condensed_halving_doubling(const std::vector<int>& ranks, int world) {
  const auto n = static_cast<int>(ranks.size());
  const auto p = static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
  Schedule s{"condensed", world, p, {}};
  const auto rank = [&](int i) { return ranks[static_cast<size_t>(i)]; };
  int round = 0;
  for (int extra = p; extra < n; ++extra) add(s, round, rank(extra), rank(extra - p), true, p);
  ++round;
  for (int distance = p / 2; distance >= 1; distance /= 2, ++round) {
    for (int i = 0; i < p; ++i) add(s, round, rank(i), rank(i ^ distance), true, distance);
  }
  for (int distance = 1; distance < p; distance *= 2, ++round) {
    for (int i = 0; i < p; ++i) add(s, round, rank(i), rank(i ^ distance), false, distance);
  }
  for (int extra = p; extra < n; ++extra) add(s, round, rank(extra - p), rank(extra), false, p);
  return s;
}

Schedule condensed_hierarchical(const std::vector<std::vector<int>>& groups, int world) {
  std::vector<int> leaders;
  size_t widest = 0;
  for (const auto& group : groups) {
    leaders.push_back(group.front());
    widest = std::max(widest, group.size());
  }
  const auto hosts = static_cast<int>(leaders.size()), local_rounds = static_cast<int>(widest) - 1;
  Schedule s{"condensed", world, std::max(1, hosts), {}};
  const auto within = [&](int first_round, bool up) {
    for (size_t k = 1; k < widest; ++k) {
      for (const auto& group : groups) {
        if (k >= group.size()) continue;
        add(s, first_round + static_cast<int>(k) - 1, up ? group[k] : group[0], up ? group[0] : group[k], up,
            s.chunks);
      }
    }
  };
  within(0, true);
  twice(s, leaders, local_rounds, 1);
  within(local_rounds + 2, false);
  s.hidden_rounds = hidden_rounds(leaders.size());
  return s;
}

}  // namespace entrain::collective
