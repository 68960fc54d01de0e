#include "entrain/optim/clocks.h"

#include <gmock/gmock.h>

namespace entrain::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

const Clock::time_point kStart;
Clock::time_point at(int seconds) { return kStart + std::chrono::seconds(seconds); }

std::vector<int> push(Clocks& clocks, int worker, int now = 0) {
  clocks.pushed(worker);
  return clocks.take_ready(at(now));
}

// s = 0, workers A B C; each row is a push, the last column who goes on after it.
//
//   A            waits for B and C
//   B            waits for C
//   C            A B C
TEST(Clocks, WithoutStalenessAllGoOnTogether) {
  Clocks clocks({0, 1, 2}, 0, kStart);
  for (int round = 0; round < 3; ++round) {
    EXPECT_THAT(push(clocks, 0), IsEmpty());
    EXPECT_THAT(push(clocks, 1), IsEmpty());
    EXPECT_THAT(push(clocks, 2), ElementsAre(0, 1, 2));
  }
  EXPECT_EQ(clocks.greatest_lead(), 0);
}

TEST(Clocks, AWorkerIsAtMostSAhead) {
  Clocks clocks({0, 1}, 2, kStart);
  EXPECT_THAT(push(clocks, 0), ElementsAre(0));
  EXPECT_THAT(push(clocks, 0), ElementsAre(0));
  EXPECT_THAT(push(clocks, 0), IsEmpty());  // it would be in its fourth exchange, the other in its first
  EXPECT_THAT(push(clocks, 1), ElementsAre(0, 1));
  EXPECT_THAT(push(clocks, 0), IsEmpty());
  EXPECT_EQ(clocks.greatest_lead(), 2);
}

TEST(Clocks, WithoutABoundNobodyWaits) {
  Clocks clocks({0, 1}, kAnyStaleness, kStart);
  for (int i = 0; i < 100; ++i) EXPECT_THAT(push(clocks, 0), ElementsAre(0));
  EXPECT_THAT(clocks.waited_for(at(100)), IsEmpty());
  EXPECT_EQ(clocks.greatest_lead(), 100);
}

TEST(Clocks, WhoIsGoneIsNotWaitedFor) {
  Clocks clocks({0, 1, 2}, 0, kStart);
  EXPECT_THAT(push(clocks, 0), IsEmpty());
  EXPECT_THAT(push(clocks, 1), IsEmpty());
  clocks.gone(2);
  EXPECT_THAT(clocks.take_ready(at(1)), ElementsAre(0, 1));
  EXPECT_THAT(push(clocks, 0), IsEmpty());
  clocks.gone(1);
  EXPECT_THAT(clocks.take_ready(at(1)), ElementsAre(0));
  clocks.gone(0);
  EXPECT_THAT(clocks.take_ready(at(1)), IsEmpty());
}

TEST(Clocks, SaysWhoIsWaitedForAndHowLong) {
  Clocks clocks({0, 1, 2}, 0, kStart);
  EXPECT_THAT(clocks.waited_for(at(9)), IsEmpty());  // all compute
  push(clocks, 0, 10);
  EXPECT_THAT(clocks.waited_for(at(11)), ElementsAre(Pair(1, 11), Pair(2, 11)));
  push(clocks, 1, 12);
  push(clocks, 2, 13);
  push(clocks, 2, 14);
  push(clocks, 0, 15);
  EXPECT_THAT(clocks.waited_for(at(20)), ElementsAre(Pair(1, 7)));
}

// A worker that was stopped for a hundred rounds would make the others wait for a hundred rounds.
TEST(Clocks, WhoComesBackJoinsTheSlowest) {
  Clocks clocks({0, 1, 2}, 0, kStart);
  push(clocks, 0);
  push(clocks, 1);
  clocks.leave_out(2);
  EXPECT_THAT(clocks.take_ready(at(1)), ElementsAre(0, 1));
  for (int i = 0; i < 100; ++i) {
    push(clocks, 0);
    EXPECT_THAT(push(clocks, 1), ElementsAre(0, 1));
  }
  EXPECT_THAT(push(clocks, 2), IsEmpty());  // it counts in this round
  EXPECT_THAT(push(clocks, 0), IsEmpty());
  EXPECT_THAT(push(clocks, 1), ElementsAre(0, 1, 2));
  EXPECT_EQ(clocks.greatest_lead(), 0);
}

TEST(Clocks, WhoIsLeftOutWhileItWaitsGetsItsAnswerLater) {
  Clocks clocks({0, 1}, 0, kStart);
  EXPECT_THAT(push(clocks, 0), IsEmpty());
  clocks.leave_out(0);
  EXPECT_THAT(push(clocks, 1), ElementsAre(0, 1));
}

}  // namespace
}  // namespace entrain::optim
