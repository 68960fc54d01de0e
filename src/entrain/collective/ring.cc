// Ring: chunk c starts at participant c, gathers a sum once around, then travels
// once more around as the result. With n = 3, "c+" = added, "c=" = overwritten:
//
//            0 ─▶ 1     1 ─▶ 2     2 ─▶ 0
//   round 0   0+         1+         2+        reduce-scatter
//   round 1   2+         0+         1+          ... chunk 0 is complete at 2, 1 at 0, 2 at 1
//   round 2   1=         2=         0=        all-gather
//   round 3   0=         1=         2=
#include "entrain/collective/algorithms.h"

namespace entrain::collective {
namespace {

int wrap(int i, int n) { return (i % n + n) % n; }

// Rounds [first, first + n - 1): participant i passes on chunk i + shift - k in the k-th of them.
void once_around(Schedule& s, const std::vector<int>& order, int first, int shift, bool reduce) {
  const int n = static_cast<int>(order.size());
  for (int k = 0; k < n - 1; ++k) {
    for (int i = 0; i < n; ++i) {
      s.transfers.push_back({first + k, order[i], order[wrap(i + 1, n)], wrap(i + shift - k, n), reduce});
    }
  }
}

}  // namespace

Schedule ring(const std::vector<int>& order, int world) {
  const int n = static_cast<int>(order.size());
  Schedule s{"ring", world, n, {}};
  once_around(s, order, 0, 0, true);
  once_around(s, order, n - 1, 1, false);
  return s;
}

Schedule ring_reduce_scatter(const std::vector<int>& order, int world) {
  Schedule s{"ring reduce-scatter", world, static_cast<int>(order.size()), {}};
  once_around(s, order, 0, -1, true);
  return s;
}

Schedule ring_all_gather(const std::vector<int>& order, int world) {
  Schedule s{"ring all-gather", world, static_cast<int>(order.size()), {}};
  once_around(s, order, 0, 0, false);
  return s;
}

}  // namespace entrain::collective
