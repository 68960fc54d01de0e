// Recursive halving (reduce-scatter), then recursive doubling (all-gather), over p = the
// largest power of two ≤ n. The n - p ranks beyond first fold their message into a partner
// (B more bytes there), and get the result back at the end. For p = 4, chunks kept:
//
//   rank            0        1        2        3
//   start         0123     0123     0123     0123
//   distance 2      01       01       23       23     send the other half to rank ^ 2
//   distance 1       0        1        2        3     send the other half to rank ^ 1
//   and back      01 ...                     0123
#include <bit>

#include "entrain/collective/algorithms.h"

namespace entrain::collective {

Schedule halving_doubling(const std::vector<int>& ranks, int world) {
  const int n = static_cast<int>(ranks.size());
  const int p = static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
  Schedule s{"halving-doubling", world, p, {}};
  int round = 0;
  const auto every_chunk = [&](int from, int to, bool reduce) {
    for (int c = 0; c < p; ++c) s.transfers.push_back({round, ranks[from], ranks[to], c, reduce});
  };

  for (int extra = p; extra < n; ++extra) every_chunk(extra, extra - p, true);
  ++round;
  for (int distance = p / 2; distance >= 1; distance /= 2, ++round) {
    for (int i = 0; i < p; ++i) {
      const int partner = i ^ distance;
      const int first =
          partner & ~(distance - 1);  // the partner's half: chunks that agree with it down to this bit
      for (int c = first; c < first + distance; ++c) {
        s.transfers.push_back({round, ranks[i], ranks[partner], c, true});
      }
    }
  }
  for (int distance = 1; distance < p; distance *= 2, ++round) {
    for (int i = 0; i < p; ++i) {
      const int first = i & ~(distance - 1);
      for (int c = first; c < first + distance; ++c) {
        s.transfers.push_back({round, ranks[i], ranks[i ^ distance], c, false});
      }
    }
  }
  for (int extra = p; extra < n; ++extra) every_chunk(extra - p, extra, false);
  return s;
}

}  // namespace entrain::collective
