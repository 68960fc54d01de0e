// Collectives of many ranks in few transfers, to be priced and never run: what would pass from a rank to
// others in n - 1 rounds, chunk after chunk, is one transfer (Schedule::times). A schedule then has O(n)
// transfers (halving-doubling: O(n log n)) where the exact one has O(n^2), with the same bytes on the same
// links.
//
//   ring, n = 4      exact: 6 rounds of 4 transfers      condensed: 2 rounds of 4 transfers, 3 times each
//
//   round 0   0 ─3+▶ 1 ─3+▶ 2 ─3+▶ 3 ─3+▶ 0              what a rank sends in round 1 waits for what came to
//   it round 1   0 ─3=▶ 1 ─3=▶ 2 ─3=▶ 3 ─3=▶ 0              in round 0
//
// Direct: each rank sends to the one on the other side (i + n/2) what it sends to all, and nearly all of them
// are on other hosts than its own.
#pragma once

#include <vector>

#include "entrain/collective/schedule.h"

namespace entrain::collective {

Schedule condensed_ring(const std::vector<int>& order, int world);
Schedule condensed_direct(const std::vector<int>& ranks, int world);
Schedule condensed_halving_doubling(const std::vector<int>& ranks, int world);
Schedule condensed_hierarchical(const std::vector<std::vector<int>>& groups, int world);

}  // namespace entrain::collective
