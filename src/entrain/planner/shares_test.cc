#include "entrain/planner/shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace entrain::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EvenExamples, EndTogether) {
  EXPECT_EQ(even_examples(12, 1, {1, 2}, {0, 0}), (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(even_examples(10, 1, {1, 1}, {4, 0}), (std::vector<int64_t>{3, 7}));
  EXPECT_EQ(even_examples(4, 1, {1, 1, 1}, {100, 0, 0}), (std::vector<int64_t>{0, 2, 2}));
}

TEST(EvenExamples, WhoeverWouldEndFirstGetsTheRest) {
  EXPECT_EQ(even_examples(11, 2, {1, 2}, {0, 0}), (std::vector<int64_t>{4, 7}));  // 8 and 7; 8 and 8 is later
  EXPECT_EQ(even_examples(2, 2, {1, 1, 1}, {0, 0, 0}), (std::vector<int64_t>{1, 1, 0}));
  EXPECT_EQ(even_examples(7, 2, {2, 2}, {1, 0}), (std::vector<int64_t>{3, 4}));
}

TEST(GiveEvenShares, ReplicasThatAreAlikeNeedNone) {
  strategy::Cell cell{0, 1, {3, 5}, {0.5, 0.5}};
  give_even_shares(cell, 2, 1, {2, 2}, {1, 1});
  EXPECT_THAT(cell.shares, IsEmpty());
  EXPECT_THAT(cell.ranks, ElementsAre(3, 5));
}

TEST(GiveEvenShares, ThoseThatGetNothingLeave) {
  strategy::Cell cell{0, 1, {3, 5, 7}};
  give_even_shares(cell, 2, 1, {1, 1, 1}, {0, 0, 0});
  EXPECT_THAT(cell.ranks, ElementsAre(3, 5));
  EXPECT_THAT(cell.shares, IsEmpty()) << "one example each";
  cell = {0, 1, {3, 5, 7}};
  give_even_shares(cell, 4, 1, {1, 3, 1}, {0, 0, 100});
  EXPECT_THAT(cell.ranks, ElementsAre(3, 5));
  EXPECT_THAT(cell.shares, ElementsAre(0.25, 0.75));
}

}  // namespace
}  // namespace entrain::planner
