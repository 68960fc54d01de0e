// Direct: participant i owns chunk i. Everyone sends its part of chunk i to i, which sums
// and sends the result to everyone. Two latencies, but n-1 messages meet at each receiver.
// The sums of one chunk are ordered by round, so that they are the same each time.
#include "entrain/collective/algorithms.h"

namespace entrain::collective {

Schedule direct(const std::vector<int>& ranks, int world) {
  const int n = static_cast<int>(ranks.size());
  Schedule s{"direct", world, n, {}};
  for (int k = 1; k < n; ++k) {
    for (int i = 0; i < n; ++i)
      s.transfers.push_back({k - 1, ranks[i], ranks[(i + k) % n], (i + k) % n, true});
  }
  for (int k = 1; k < n; ++k) {
    for (int i = 0; i < n; ++i) s.transfers.push_back({n - 1, ranks[i], ranks[(i + k) % n], i, false});
  }
  return s;
}

}  // namespace entrain::collective
