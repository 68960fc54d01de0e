// Binary tree: sums flow up to ranks[0], the result flows down. One chunk; the executor's
// segments keep all levels busy at once. Children of i are 2i+1 and 2i+2:
//
//          0            up:   level 2 ─▶ 1 ─▶ 0     (add)
//        1   2          down: level 0 ─▶ 1 ─▶ 2     (overwrite)
//       3 4 5 6
#include <bit>

#include "entrain/collective/algorithms.h"

namespace entrain::collective {

Schedule tree(const std::vector<int>& ranks, int world) {
  const int n = static_cast<int>(ranks.size());
  Schedule s{"tree", world, 1, {}};
  const auto level = [](int i) { return static_cast<int>(std::bit_width(static_cast<unsigned>(i + 1))) - 1; };
  const int depth = level(n - 1);
  // Two rounds per level: the left child's sum is added before the right one's, so that sums are the same
  // each time.
  for (int l = depth; l >= 1; --l) {
    for (int side = 0; side < 2; ++side) {
      for (int i = 1; i < n; ++i) {
        if (level(i) == l && (i + 1) % 2 == side) {
          s.transfers.push_back({2 * (depth - l) + side, ranks[i], ranks[(i - 1) / 2], 0, true});
        }
      }
    }
  }
  for (int l = 1; l <= depth; ++l) {
    for (int i = 1; i < n; ++i) {
      if (level(i) == l) s.transfers.push_back({2 * depth + l - 1, ranks[(i - 1) / 2], ranks[i], 0, false});
    }
  }
  return s;
}

Schedule broadcast(const std::vector<int>& ranks, int world) {
  const int n = static_cast<int>(ranks.size());
  Schedule s{"broadcast", world, 1, {}};
  int round = 0;
  for (int have = 1; have < n; have *= 2, ++round) {
    for (int i = 0; i < have && i + have < n; ++i)
      s.transfers.push_back({round, ranks[i], ranks[i + have], 0, false});
  }
  return s;
}

}  // namespace entrain::collective
