// Hierarchical: the ranks of a host sum at its first rank, the first ranks run a ring, and
// hand the result back. Only the ring crosses the network between hosts.
#include <algorithm>

#include "entrain/collective/algorithms.h"

namespace entrain::collective {

Schedule hierarchical(const std::vector<std::vector<int>>& groups, int world) {
  std::vector<int> leaders;
  size_t widest = 0;
  for (const auto& group : groups) {
    leaders.push_back(group.front());
    widest = std::max(widest, group.size());
  }
  const Schedule between = ring(leaders, world);
  Schedule s{"hierarchical", world, std::max(1, between.chunks), {}};
  const auto within = [&](int first_round, bool up) {
    for (size_t k = 1; k < widest; ++k) {
      for (const auto& group : groups) {
        if (k >= group.size()) continue;
        for (int c = 0; c < s.chunks; ++c) {
          const int round = first_round + static_cast<int>(k) - 1;
          s.transfers.push_back({round, up ? group[k] : group[0], up ? group[0] : group[k], c, up});
        }
      }
    }
  };

  const int local_rounds = static_cast<int>(widest) - 1;
  within(0, true);
  for (Transfer t : between.transfers) {
    t.round += local_rounds;
    s.transfers.push_back(t);
  }
  within(local_rounds + between.rounds(), false);
  return s;
}

}  // namespace entrain::collective
