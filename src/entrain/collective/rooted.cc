// Rooted: a parameter server. Pushes are summed at the root in the order of the workers;
// the executor cuts the message into segments, so the root sends the first back while it
// still receives the last, and both directions of its link are busy.
#include <algorithm>

#include "entrain/collective/algorithms.h"

namespace entrain::collective {
namespace {

// Pushes of `from` to `root` from round `first` on; returns the next free round. A root that
// holds no gradient of its own takes the first push as it is.
int push(Schedule& s, const std::vector<int>& from, int root, int first, bool root_has_own) {
  bool add = root_has_own;
  for (const int rank : from) {
    if (rank == root) continue;
    s.transfers.push_back({first++, rank, root, 0, add});
    add = true;
  }
  return first;
}

void pull(Schedule& s, const std::vector<int>& to, int root, int round) {
  for (const int rank : to) {
    if (rank != root) s.transfers.push_back({round, root, rank, 0, false});
  }
}

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

Schedule rooted(const std::vector<int>& workers, int root, int world) {
  Schedule s{"rooted", world, 1, {}};
  const int round = push(s, workers, root, 0, contains(workers, root));
  pull(s, workers, root, round);
  return s;
}

Schedule rooted_by_group(const std::vector<std::vector<int>>& groups, int root, int world) {
  Schedule s{"rooted by host", world, 1, {}};
  std::vector<int> proxies;
  int round = 0;
  for (const auto& group : groups) {
    const int proxy = contains(group, root) ? root : group.front();
    proxies.push_back(proxy);
    round = std::max(round, push(s, group, proxy, 0, true));
  }
  const int back = push(s, proxies, root, round, contains(proxies, root));
  pull(s, proxies, root, back);
  for (size_t g = 0; g < groups.size(); ++g) pull(s, groups[g], proxies[g], back + 1);
  std::stable_sort(s.transfers.begin(), s.transfers.end(),
                   [](const Transfer& a, const Transfer& b) { return a.round < b.round; });
  return s;
}

}  // namespace entrain::collective
