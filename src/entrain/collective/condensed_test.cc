#include "entrain/collective/condensed.h"

#include <gtest/gtest.h>

#include <numeric>

#include "entrain/base/error.h"
#include "entrain/collective/algorithms.h"
#include "entrain/collective/executor.h"

namespace entrain::collective {
namespace {

std::vector<int> first_ranks(int n) {
  std::vector<int> ranks(static_cast<size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<std::vector<int>> hosts_of(int hosts, int ranks) {
  std::vector<std::vector<int>> groups(static_cast<size_t>(hosts));
  for (int r = 0; r < hosts * ranks; ++r) groups[static_cast<size_t>(r / ranks)].push_back(r);
  return groups;
}

// Chunks that a rank receives and adds to its own.
int chunks_summed(const Schedule& s, int rank) {
  int sum = 0;
  for (size_t i = 0; i < s.transfers.size(); ++i) {
    const Transfer& t = s.transfers[i];
    if (t.to == rank && t.reduce) sum += s.times.empty() ? 1 : s.times[i];
  }
  return sum;
}

// `elements` are cut into equal chunks by both.
void expect_same_bytes(const Schedule& condensed, const Schedule& exact, int64_t elements) {
  ASSERT_EQ(condensed.chunks, exact.chunks);
  ASSERT_EQ(condensed.times.size(), condensed.transfers.size());
  const auto ours = traffic(condensed, elements, 4), theirs = traffic(exact, elements, 4);
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t r = 0; r < ours.size(); ++r) {
    EXPECT_EQ(ours[r].sent, theirs[r].sent) << r;
    EXPECT_EQ(ours[r].received, theirs[r].received) << r;
    const int rank = static_cast<int>(r);
    EXPECT_EQ(chunks_summed(condensed, rank), chunks_summed(exact, rank)) << r;
  }
}

TEST(Condensed, EveryRankSendsAndReceivesAsMuchAsInTheExactSchedule) {
  for (const int n : {1, 2, 3, 8, 12}) {
    const auto ranks = first_ranks(n);
    expect_same_bytes(condensed_ring(ranks, n), ring(ranks, n), 5 * n);
    expect_same_bytes(condensed_direct(ranks, n), direct(ranks, n), 5 * n);
    expect_same_bytes(condensed_halving_doubling(ranks, n), halving_doubling(ranks, n), 5 * 8);
  }
  for (const auto& groups : {hosts_of(3, 4), hosts_of(4, 1), std::vector<std::vector<int>>{{0, 1, 2}, {3}}}) {
    const int world = 12, hosts = static_cast<int>(groups.size());
    expect_same_bytes(condensed_hierarchical(groups, world), hierarchical(groups, world), 5 * hosts);
  }
}

TEST(Condensed, TransfersGrowWithTheRanksAndNotWithTheirSquare) {
  EXPECT_EQ(condensed_ring(first_ranks(100), 100).transfers.size(), 200u);
  EXPECT_EQ(condensed_direct(first_ranks(100), 100).transfers.size(), 200u);
  EXPECT_EQ(condensed_halving_doubling(first_ranks(64), 64).transfers.size(), 2u * 6 * 64);
  EXPECT_EQ(condensed_hierarchical(hosts_of(25, 4), 100).transfers.size(), 2u * 75 + 50);
}

TEST(Condensed, RoundsThatItDoesNotShowAreCounted) {
  EXPECT_EQ(condensed_ring(first_ranks(5), 5).hidden_rounds + 2, ring(first_ranks(5), 5).rounds());
  EXPECT_EQ(condensed_direct(first_ranks(5), 5).hidden_rounds, 0);
  EXPECT_EQ(condensed_ring(first_ranks(1), 1).hidden_rounds, 0);
  EXPECT_EQ(condensed_hierarchical(hosts_of(5, 3), 15).hidden_rounds, 6);
  // The ranks of a host take turns, before the ring of hosts and after it.
  for (const int ranks : {1, 2, 3, 4}) {
    const auto hosts = hosts_of(5, ranks);
    const Schedule condensed = condensed_hierarchical(hosts, 20), exact = hierarchical(hosts, 20);
    EXPECT_EQ(condensed.rounds() + condensed.hidden_rounds, exact.rounds()) << ranks;
  }
}

TEST(Condensed, ItCannotRun) { EXPECT_THROW(compile(condensed_ring(first_ranks(3), 3), 0), Error); }

}  // namespace
}  // namespace entrain::collective
