#include "entrain/simulator/analytic/shared_cores.h"

#include <gtest/gtest.h>

namespace entrain::simulator {
namespace {

TEST(SharedCores, OneRankPerCoreComputesAtFullSpeed) {
  SharedCores cores;
  cores.reset(2);
  cores.begin(0, 0, 3);
  cores.begin(1, 1, 1);
  EXPECT_DOUBLE_EQ(cores.next_end(), 2);
  EXPECT_EQ(cores.take(2), 1);
  EXPECT_DOUBLE_EQ(cores.next_end(), 3);
  EXPECT_EQ(cores.take(3), 0);
  EXPECT_TRUE(cores.idle());
}

// Two ranks on one core: at half the speed while both compute.
//   rank 0  |##|#.#.|      3 s of work: 1 s alone, then half of the 2 s until rank 1 ends, then alone
//   rank 1     |.#.#|      1 s of work
TEST(SharedCores, MoreRanksThanCoresShareThemFairly) {
  SharedCores cores;
  cores.reset(1);
  cores.begin(0, 0, 3);
  cores.begin(1, 1, 1);
  EXPECT_DOUBLE_EQ(cores.next_end(), 3);
  EXPECT_EQ(cores.take(3), 1);
  EXPECT_DOUBLE_EQ(cores.next_end(), 4);
  EXPECT_EQ(cores.take(4), 0);
}

TEST(SharedCores, ThreeRanksOnTwoCoresTakeHalfAsLongAgain) {
  SharedCores cores;
  cores.reset(2);
  for (int rank = 0; rank < 3; ++rank) cores.begin(0, rank, 2);
  EXPECT_DOUBLE_EQ(cores.next_end(), 3);
  EXPECT_EQ(cores.take(3), 0);  // who began first ends first
  EXPECT_DOUBLE_EQ(cores.next_end(), 3);
}

TEST(SharedCores, NoCoresMeanThatNothingIsShared) {
  SharedCores cores;
  cores.reset(0);
  for (int rank = 0; rank < 3; ++rank) cores.begin(0, rank, 2);
  EXPECT_DOUBLE_EQ(cores.next_end(), 2);
}

}  // namespace
}  // namespace entrain::simulator
