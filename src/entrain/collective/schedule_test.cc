// Every algorithm's schedule is run on plain integers here; the executor's test moves real bytes.
#include "entrain/collective/schedule.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "entrain/collective/algorithms.h"

namespace entrain::collective {
namespace {

std::vector<int> iota(int n) {
  std::vector<int> ranks(n);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<std::vector<int>> in_groups(int n, int size) {
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < n; ++rank) {
    if (rank % size == 0) groups.emplace_back();
    groups.back().push_back(rank);
  }
  return groups;
}

// values[rank][chunk] is the multiset of contributions; a round reads what earlier rounds left.
using State = std::vector<std::vector<std::multiset<int>>>;

State run(const Schedule& s, const std::vector<int>& contributors) {
  State state(s.ranks, std::vector<std::multiset<int>>(s.chunks));
  for (const int rank : contributors) {
    for (auto& chunk : state[rank]) chunk.insert(rank);
  }
  for (int round = 0; round < s.rounds(); ++round) {
    const State before = state;
    for (const Transfer& t : s.transfers) {
      if (t.round != round) continue;
      auto& target = state[t.to][t.chunk];
      const auto& source = before[t.from][t.chunk];
      if (t.reduce) {
        target.insert(source.begin(), source.end());
      } else {
        target = source;
      }
    }
  }
  return state;
}

struct Algorithm {
  const char* name;
  std::function<Schedule(int)> make;
};

class AllReduceTest : public testing::TestWithParam<Algorithm> {};

TEST_P(AllReduceTest, EveryChunkEndsAsTheSumOfAllExactlyOnce) {
  for (int n = 1; n <= 17; ++n) {
    const Schedule s = GetParam().make(n);
    const auto everyone = iota(n);
    const std::multiset<int> sum(everyone.begin(), everyone.end());
    for (const auto& chunks : run(s, everyone)) {
      for (const auto& chunk : chunks) EXPECT_EQ(chunk, sum) << s.name << " n=" << n;
    }
    for (size_t i = 1; i < s.transfers.size(); ++i) EXPECT_LE(s.transfers[i - 1].round, s.transfers[i].round);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Algorithms, AllReduceTest,
    testing::Values(Algorithm{"ring", [](int n) { return ring(iota(n), n); }},
                    Algorithm{"direct", [](int n) { return direct(iota(n), n); }},
                    Algorithm{"halving_doubling", [](int n) { return halving_doubling(iota(n), n); }},
                    Algorithm{"tree", [](int n) { return tree(iota(n), n); }},
                    Algorithm{"hierarchical2", [](int n) { return hierarchical(in_groups(n, 2), n); }},
                    Algorithm{"hierarchical4", [](int n) { return hierarchical(in_groups(n, 4), n); }},
                    Algorithm{"rooted", [](int n) { return rooted(iota(n), n / 2, n); }},
                    Algorithm{"rooted_by_group",
                              [](int n) { return rooted_by_group(in_groups(n, 3), n / 2, n); }}),
    [](const auto& p) { return p.param.name; });

// The picture in ring.cc.
TEST(Ring, IsAsDrawn) {
  const Schedule s = ring({0, 1, 2}, 3);
  const std::vector<Transfer> drawn = {{0, 0, 1, 0, true},  {0, 1, 2, 1, true},  {0, 2, 0, 2, true},
                                       {1, 0, 1, 2, true},  {1, 1, 2, 0, true},  {1, 2, 0, 1, true},
                                       {2, 0, 1, 1, false}, {2, 1, 2, 2, false}, {2, 2, 0, 0, false},
                                       {3, 0, 1, 0, false}, {3, 1, 2, 1, false}, {3, 2, 0, 2, false}};
  EXPECT_EQ(s.transfers, drawn);
}

// Three ranks own a chunk each, whose sums are ordered by round.
TEST(Direct, GoesToTheOwnerAndBack) {
  const Schedule s = direct({0, 1, 2}, 3);
  const std::vector<Transfer> expected = {{0, 0, 1, 1, true},  {0, 1, 2, 2, true},  {0, 2, 0, 0, true},
                                          {1, 0, 2, 2, true},  {1, 1, 0, 0, true},  {1, 2, 1, 1, true},
                                          {2, 0, 1, 0, false}, {2, 1, 2, 1, false}, {2, 2, 0, 2, false},
                                          {2, 0, 2, 0, false}, {2, 1, 0, 1, false}, {2, 2, 1, 2, false}};
  EXPECT_EQ(s.transfers, expected);
}

// The picture in tree.cc, without its last node.
TEST(Tree, IsAsDrawn) {
  const Schedule s = tree({0, 1, 2, 3, 4, 5}, 6);
  const std::vector<Transfer> drawn = {{0, 3, 1, 0, true},  {0, 5, 2, 0, true},  {1, 4, 1, 0, true},
                                       {2, 1, 0, 0, true},  {3, 2, 0, 0, true},  {4, 0, 1, 0, false},
                                       {4, 0, 2, 0, false}, {5, 1, 3, 0, false}, {5, 1, 4, 0, false},
                                       {5, 2, 5, 0, false}};
  EXPECT_EQ(s.transfers, drawn);
}

TEST(Broadcast, GoesDownABinomialTree) {
  const Schedule s = broadcast({3, 1, 0, 2, 4, 5}, 6);
  const std::vector<Transfer> expected = {{0, 3, 1, 0, false},
                                          {1, 3, 0, 0, false},
                                          {1, 1, 2, 0, false},
                                          {2, 3, 4, 0, false},
                                          {2, 1, 5, 0, false}};
  EXPECT_EQ(s.transfers, expected);
}

// The picture in halving_doubling.cc: chunks that each rank still holds.
TEST(HalvingDoubling, SendsTheOtherHalf) {
  std::map<std::pair<int, int>, std::set<int>> sent;  // by the order of its round and the sender
  std::map<int, int> order;
  const Schedule s = halving_doubling({0, 1, 2, 3}, 4);
  for (const Transfer& t : s.transfers) order.emplace(t.round, static_cast<int>(order.size()));
  for (const Transfer& t : s.transfers) {
    const int round = order.at(t.round);
    sent[{round, t.from}].insert(t.chunk);
    EXPECT_EQ(t.to, t.from ^ (round == 0 || round == 3 ? 2 : 1));
    EXPECT_EQ(t.reduce, round < 2);
  }
  const std::set<int> halves[] = {{0, 1}, {2, 3}};
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ((sent[{0, rank}]), halves[rank < 2 ? 1 : 0]);
    EXPECT_EQ((sent[{1, rank}]), std::set<int>{rank ^ 1});
    EXPECT_EQ((sent[{2, rank}]), std::set<int>{rank});
    EXPECT_EQ((sent[{3, rank}]), halves[rank < 2 ? 0 : 1]);
  }
}

TEST(HalvingDoubling, RanksBeyondAPowerOfTwoFoldIntoAPartner) {
  const int64_t b = 4 * 840;
  const auto t = traffic(halving_doubling(iota(5), 5), 840, 4);
  EXPECT_EQ(t[4].sent, b);
  EXPECT_EQ(t[4].received, b);
  EXPECT_EQ(t[0].sent, b + 6 * b / 4);
  EXPECT_EQ(t[0].received, b + 6 * b / 4);
  for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(t[rank].sent, 6 * b / 4);
}

// Of two hosts: their ranks sum at the first of each in turn, which speak for them.
TEST(Hierarchical, OnlyTheFirstRanksSpeakToOtherHosts) {
  const Schedule s = hierarchical({{0, 1, 2}, {3}}, 4);
  const std::vector<Transfer> expected = {{0, 1, 0, 0, true},  {0, 1, 0, 1, true},  {1, 2, 0, 0, true},
                                          {1, 2, 0, 1, true},  {2, 0, 3, 0, true},  {2, 3, 0, 1, true},
                                          {3, 0, 3, 1, false}, {3, 3, 0, 0, false}, {4, 0, 1, 0, false},
                                          {4, 0, 1, 1, false}, {5, 0, 2, 0, false}, {5, 0, 2, 1, false}};
  EXPECT_EQ(s.transfers, expected);
}

TEST(Rooted, SumsInTheOrderOfTheWorkers) {
  const std::vector<Transfer> expected = {
      {0, 2, 1, 0, true}, {1, 0, 1, 0, true}, {2, 1, 2, 0, false}, {2, 1, 0, 0, false}};
  EXPECT_EQ(rooted({2, 1, 0}, 1, 3).transfers, expected);
  // A server takes the first push as it is, whatever its memory holds.
  const std::vector<Transfer> apart = {
      {0, 0, 2, 0, false}, {1, 1, 2, 0, true}, {2, 2, 0, 0, false}, {2, 2, 1, 0, false}};
  EXPECT_EQ(rooted({0, 1}, 2, 3).transfers, apart);
}

TEST(Rooted, HostsSumBeforeTheyPush) {
  const std::vector<Transfer> expected = {{0, 1, 0, 0, true},  {0, 3, 4, 0, true},  {1, 2, 4, 0, true},
                                          {2, 0, 4, 0, true},  {3, 4, 0, 0, false}, {4, 0, 1, 0, false},
                                          {4, 4, 3, 0, false}, {4, 4, 2, 0, false}};
  EXPECT_EQ(rooted_by_group({{0, 1}, {3, 2, 4}}, 4, 5).transfers, expected);
}

TEST(Rooted, ServerThatDoesNotTrainAddsNothing) {
  const Schedule s = rooted({0, 1, 2}, 3, 4);
  const auto state = run(s, {0, 1, 2});
  for (const auto& chunks : state) EXPECT_EQ(chunks[0], (std::multiset<int>{0, 1, 2}));
  const Schedule by_group = rooted_by_group({{0, 1}, {2, 3}}, 4, 5);
  for (const auto& chunks : run(by_group, {0, 1, 2, 3}))
    EXPECT_EQ(chunks[0], (std::multiset<int>{0, 1, 2, 3}));
}

TEST(Rooted, LocalReplicationSendsOneCopyAHost) {
  const auto plain = traffic(rooted({0, 1, 2, 3}, 0, 4), 100, 4);
  const auto grouped = traffic(rooted_by_group({{0, 1}, {2, 3}}, 0, 4), 100, 4);
  EXPECT_EQ(plain[0].received, 3 * 400);
  EXPECT_EQ(grouped[0].received, 2 * 400);
}

// The table in algorithms.h.
TEST(Traffic, IsAsTheTableSays) {
  const int64_t b = 4 * 840;
  for (const int n : {2, 4, 8}) {
    for (const auto& s : {ring(iota(n), n), direct(iota(n), n), halving_doubling(iota(n), n)}) {
      for (const auto& t : traffic(s, 840, 4)) {
        EXPECT_EQ(t.sent, 2 * (n - 1) * b / n) << s.name;
        EXPECT_EQ(t.received, 2 * (n - 1) * b / n) << s.name;
      }
    }
    EXPECT_EQ(traffic(rooted(iota(n), 0, n), 840, 4)[0].sent, (n - 1) * b);
    EXPECT_EQ(traffic(ring_reduce_scatter(iota(n), n), 840, 4)[0].sent, (n - 1) * b / n);
  }
}

// The table in algorithms.h: rounds in which somebody sends.
TEST(Rounds, AreAsTheTableSays) {
  const auto used = [](const Schedule& s) {
    std::set<int> rounds;
    for (const Transfer& t : s.transfers) rounds.insert(t.round);
    EXPECT_LE(rounds.size(), static_cast<size_t>(s.rounds())) << s.name;
    return static_cast<int>(rounds.size());
  };
  for (const auto& [n, log] : {std::pair(2, 1), {4, 2}, {8, 3}, {16, 4}}) {
    EXPECT_EQ(used(ring(iota(n), n)), 2 * (n - 1));
    EXPECT_EQ(used(halving_doubling(iota(n), n)), 2 * log);
    EXPECT_EQ(used(rooted(iota(n), 0, n)), n);
    EXPECT_EQ(used(ring_reduce_scatter(iota(n), n)), n - 1);
    EXPECT_EQ(used(ring_all_gather(iota(n), n)), n - 1);
    EXPECT_EQ(used(broadcast(iota(n), n)), log);
  }
  EXPECT_EQ(used(hierarchical(in_groups(12, 3), 12)), 2 * 3 + 2 * 2);
}

TEST(RingHalves, ReduceScatterThenAllGatherIsAllReduce) {
  const int n = 5;
  const auto scattered = run(ring_reduce_scatter(iota(n), n), iota(n));
  for (int rank = 0; rank < n; ++rank) EXPECT_EQ(scattered[rank][rank].size(), 5u);
  const Schedule gather = ring_all_gather(iota(n), n);
  for (const auto& chunks : run(gather, iota(n))) {
    for (int c = 0; c < n; ++c) EXPECT_EQ(chunks[c], std::multiset<int>{c});
  }
}

TEST(Broadcast, ReachesEveryone) {
  for (int n = 1; n < 9; ++n) {
    for (const auto& chunks : run(broadcast(iota(n), n), iota(n)))
      EXPECT_EQ(chunks[0], std::multiset<int>{0});
  }
}

TEST(ChunkRange, CoversEverythingOnce) {
  for (const int64_t elements : {0, 1, 7, 100}) {
    int64_t next = 0;
    for (int c = 0; c < 7; ++c) {
      const Range r = chunk_range(elements, 7, c);
      EXPECT_EQ(r.begin, next);
      next = r.end;
    }
    EXPECT_EQ(next, elements);
  }
}

}  // namespace
}  // namespace entrain::collective
