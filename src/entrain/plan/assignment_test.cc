#include "entrain/plan/assignment.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace entrain::plan {
namespace {

using strategy::Cell;
using strategy::Shape;

std::vector<int64_t> counts(const Assignment& assignment) {
  std::vector<int64_t> result;
  for (const MicroBatch& m : assignment.micro_batches) result.push_back(m.count);
  return result;
}

int64_t examples_of(const Assignment& assignment, int cell, int replica) {
  int64_t sum = 0;
  for (const int m : assignment.of_replica(cell, replica)) {
    sum += assignment.micro_batches[static_cast<size_t>(m)].count;
  }
  return sum;
}

TEST(Assignment, DataParallelRanksTakeTheExamplesInTheOrderOfTheirRanks) {
  const Assignment a = assign(strategy::data_parallel(16, {0, 1, 2, 3}), 10);
  EXPECT_EQ(a.micro_batches, (std::vector<MicroBatch>{{0, 3}, {3, 3}, {6, 2}, {8, 2}}));
  EXPECT_EQ(a.rank_of, (std::vector<std::vector<int>>{{0, 1, 2, 3}}));
}

TEST(Assignment, ReplicasTakeTurnsWithTheirMicroBatches) {
  const Assignment a = assign({{{0, 1, {5, 2}}, {1, 2, {3, 4}}}, 4}, 8);
  EXPECT_EQ(a.rank_of, (std::vector<std::vector<int>>{{5, 2, 5, 2}, {3, 4, 3, 4}}));
  EXPECT_EQ(counts(a), (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(a.of_replica(0, 1), (std::vector<int>{1, 3}));
}

TEST(Assignment, SharesAreRealisedToTheNearestMicroBatchAndExample) {
  const Assignment a = assign({{{0, 2, {0, 1, 2, 3}, {.1, .3, .3, .3}}, {2, 3, {0}}}, 10}, 40);
  EXPECT_EQ(a.of_replica(0, 0).size(), 1U);
  for (int r = 1; r < 4; ++r) EXPECT_EQ(a.of_replica(0, r).size(), 3U);
  EXPECT_EQ(examples_of(a, 0, 0), 4);
  EXPECT_EQ(examples_of(a, 0, 2), 12);
  EXPECT_EQ(a.of_replica(1, 0).size(), 10U);
}

TEST(Assignment, WithAMicroBatchEachSharesAreSizesOfMicroBatches) {
  const Assignment a = assign({{{0, 1, {0, 1}, {.25, .75}}}}, 8);
  EXPECT_EQ(counts(a), (std::vector<int64_t>{2, 6}));
}

TEST(Assignment, AShareOfAlmostNothingIsStillOneMicroBatchOfOneExample) {
  const Assignment a = assign({{{0, 1, {0, 1}, {.001, .999}}}, 4}, 8);
  EXPECT_EQ(a.of_replica(0, 0).size(), 1U);
  EXPECT_EQ(examples_of(a, 0, 0), 1);
}

TEST(Assignment, ReplicasOfUnequalSharesEndTogether) {
  // Replica 0 has one of five micro-batches: it is in the middle of the others'.
  const Assignment a = assign({{{0, 1, {0, 1}, {.2, .8}}}, 5}, 5);
  EXPECT_EQ(a.rank_of[0], (std::vector<int>{1, 1, 0, 1, 1}));
}

TEST(Assignment, ACellWithFewerReplicasSpreadsTheMicroBatchesEvenly) {
  const Assignment a = assign({{{0, 1, {0, 1, 2}}, {1, 2, {3, 4}}}, 6}, 12);
  EXPECT_EQ(a.rank_of[1], (std::vector<int>{3, 4, 3, 4, 3, 4}));
}

// Any shape: every example is in one micro-batch, every replica gets what its share says to the nearest
// micro-batch in number.
TEST(Assignment, OfAnyShapeCoversTheExamplesOnceAndKeepsToTheShares) {
  std::mt19937 random(5);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  for (int trial = 0; trial < 300; ++trial) {
    Shape shape;
    for (int c = 0, cells = draw(3); c < cells; ++c) {
      Cell cell{c, c + 1, {}};
      for (int r = 0, replicas = draw(4); r < replicas; ++r) cell.ranks.push_back(r);
      double sum = 0;
      for (size_t r = 0; r < cell.ranks.size(); ++r) sum += cell.shares.emplace_back(draw(9));
      for (double& share : cell.shares) share /= sum;
      shape.cells.push_back(cell);
    }
    shape.micro_batches = shape.most_replicas() + draw(8);
    const int64_t examples = shape.micro_batches + draw(30);
    const Assignment a = assign(shape, examples);

    ASSERT_EQ(a.count(), shape.micro_batches);
    int64_t next = 0;
    for (const MicroBatch& m : a.micro_batches) {
      ASSERT_EQ(m.begin, next);
      ASSERT_GE(m.count, 1);
      next += m.count;
    }
    ASSERT_EQ(next, examples);
    for (int c = 0; c < a.cells(); ++c) {
      const Cell& cell = shape.cells[static_cast<size_t>(c)];
      size_t all = 0;
      for (int r = 0; r < cell.replicas(); ++r) {
        const auto own = a.of_replica(c, r);
        ASSERT_FALSE(own.empty());
        all += own.size();
        for (const int m : own) ASSERT_EQ(a.rank_of[size_t(c)][size_t(m)], cell.ranks[size_t(r)]);
        const double exact = cell.share(r) * shape.micro_batches;
        if (exact >= 1) {
          ASSERT_GT(static_cast<double>(own.size()), exact - cell.replicas());
        }
        ASSERT_LT(static_cast<double>(own.size()), exact + 1 + 1e-9);
      }
      ASSERT_EQ(all, static_cast<size_t>(a.count()));
    }
  }
}

}  // namespace
}  // namespace entrain::plan
