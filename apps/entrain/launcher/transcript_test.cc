#include "launcher/transcript.h"

#include <gtest/gtest.h>

namespace entrain::app {
namespace {

using Stream = Transcript::Stream;

class Told : public testing::Test {
 protected:
  Transcript of(std::vector<Transcript::Rank> ranks, bool terminal = false) {
    const auto write = [this](int fd, std::string_view text) { (fd == 1 ? out : err) += text; };
    return {std::move(ranks), write, terminal};
  }
  std::string out, err;
};

TEST_F(Told, TheResultOfRankZeroIsUntouchedAndOtherRanksHaveTheirPrefix) {
  auto t = of({{"[rank 0 @ a] "}, {"[rank 1 @ b] "}});
  t.add(0, Stream::kOutput, "{\"x\": ");
  t.add(1, Stream::kOutput, "hel");
  t.add(0, Stream::kOutput, "1}\n");
  t.add(1, Stream::kErrors, "warn\nlast");
  t.add(1, Stream::kOutput, "lo\n");
  t.end(1);
  t.close();
  EXPECT_EQ(out, "{\"x\": 1}\n");
  EXPECT_EQ(err, "[rank 1 @ b] warn\n[rank 1 @ b] hello\n[rank 1 @ b] last\n");
}

TEST_F(Told, OnATerminalProgressOfRankZeroIsShownAtOnceAndNoLineIsGluedToIt) {
  auto t = of({{""}, {""}}, true);
  t.add(0, Stream::kErrors, "\r\033[Kstep 1");
  EXPECT_EQ(err, "\r\033[Kstep 1");
  t.add(1, Stream::kErrors, "hello\n");
  EXPECT_EQ(err, "\r\033[Kstep 1\nhello\n");
  t.add(0, Stream::kErrors, "\r\033[Kstep 2\n");
  EXPECT_EQ(err, "\r\033[Kstep 1\nhello\n\r\033[Kstep 2\n");
}

TEST_F(Told, InALogLinesOfRankZeroStayWhole) {
  auto t = of({{""}, {""}});
  t.add(0, Stream::kErrors, "step");
  t.add(1, Stream::kErrors, "hello\n");
  t.add(0, Stream::kErrors, " 1\n");
  EXPECT_EQ(err, "hello\nstep 1\n");
  EXPECT_FALSE(t.told(0));
}

TEST_F(Told, ALineWithoutEndIsShownInPieces) {
  auto t = of({{""}, {"[rank 1 @ b] "}});
  for (int i = 0; i < 100'000; ++i) t.add(1, Stream::kErrors, "x");
  EXPECT_GT(err.size(), 60'000u);
  t.end(1);
  EXPECT_GT(err.size(), 100'000u);
}

TEST_F(Told, AFailureThatEveryRankTellsIsShownOnce) {
  auto t = of({{""}, {""}, {""}, {""}});
  t.add(1, Stream::kErrors, "entrain: model is \"nosuch\", allowed: vgg16\n");
  t.add(0, Stream::kErrors, "entrain: model is \"nosuch\"");
  t.add(0, Stream::kErrors, ", allowed: vgg16\n");
  t.add(3, Stream::kErrors, "entrain: model is \"nosuch\", allowed: vgg16\n");
  EXPECT_EQ(err, "entrain: model is \"nosuch\", allowed: vgg16\n");
  t.close();
  EXPECT_EQ(err, "entrain: model is \"nosuch\", allowed: vgg16\nentrain: the same from ranks 0, 3\n");
}

TEST_F(Told, TheDeathOfARankIsTheSameFailureForAllWhoTellIt) {
  auto t = of({{""}, {""}, {""}, {""}});
  t.add(0, Stream::kErrors,
        "entrain: rank 2 (10.0.0.3:4123) closed the connection while rank 0 waited for: all-reduce of a\n");
  t.add(1, Stream::kErrors,
        "entrain: rank 2 (10.0.0.3:4177) closed the connection while rank 1 waited for: all-reduce of b\n");
  t.add(3, Stream::kErrors, "entrain: rank 2 (10.0.0.3:4123) is cut off (Connection reset by peer)\n");
  t.close();
  EXPECT_EQ(err,
            "entrain: rank 2 (10.0.0.3:4123) closed the connection while rank 0 waited for: all-reduce of a\n"
            "entrain: the same from ranks 1, 3\n");
}

TEST_F(Told, TheSameFailureOnSeveralHostsIsOne) {
  auto t = of({{"", false, "10.0.0.1"}, {"[rank 1] ", false, "10.0.0.2"}, {"[rank 2] ", false, "10.0.0.3"}});
  t.add(1, Stream::kErrors, "entrain: host 10.0.0.2 has no program x\n");
  t.add(2, Stream::kErrors, "entrain: host 10.0.0.3 has no program x\n");
  t.close();
  EXPECT_EQ(err, "[rank 1] entrain: host 10.0.0.2 has no program x\nentrain: the same from rank 2\n");
}

TEST_F(Told, WhoLostTheConnectionToAKilledRankTellsTheSame) {
  auto t = of({{""}, {""}, {""}});
  t.fail(2, "rank 2 on a was killed by signal 9 (Killed)");
  t.add(0, Stream::kErrors, "entrain: rank 2 (a:1) closed the connection while rank 0 waited for: x\n");
  t.add(1, Stream::kErrors, "entrain: rank 2 (a:1) closed the connection\n");
  t.close();
  EXPECT_EQ(err, "entrain: rank 2 on a was killed by signal 9 (Killed)\nentrain: the same from ranks 0, 1\n");
}

TEST_F(Told, DifferentFailuresAreAllShown) {
  auto t = of({{""}, {""}, {""}});
  t.add(0, Stream::kErrors, "entrain: cannot read a\n");
  t.add(1, Stream::kErrors, "entrain: cannot read b\n");
  t.fail(2, "cannot read a");
  t.close();
  EXPECT_EQ(err,
            "entrain: cannot read a\nentrain: cannot read b\nentrain: the same from rank 2 as from rank 0\n");
}

TEST_F(Told, WhatARankHasHeardOfAnotherIsTheSameFailure) {
  auto t = of({{""}, {""}, {""}});
  t.add(1, Stream::kErrors, "entrain: cannot read a\n");
  t.add(0, Stream::kErrors, "entrain: rank 1 ended the job: cannot read a\n");
  t.add(2, Stream::kErrors, "entrain: rank 1 ended the job: cannot read a\n");
  t.close();
  EXPECT_EQ(err, "entrain: cannot read a\nentrain: the same from ranks 0, 2\n");
}

TEST_F(Told, ADeadlineIsTheSameFailureWhoeverWaited) {
  EXPECT_EQ(failure_in("entrain: rank 2 (h:1) has been silent for 6 s: rank 0 gave up after 6.1 s: x", 0),
            failure_in("entrain: rank 2 (h:2) has been silent for 7 s: rank 1 gave up after 6.0 s: y", 1));
  EXPECT_NE(failure_in("entrain: rank 2 closed the connection", 0),
            failure_in("entrain: rank 1 closed the connection", 0));
  EXPECT_EQ(failure_in("  what():  rank 2 closed the connection while rank 0 waited", 0),
            failure_in("  what():  rank 2 closed the connection while rank 1 waited", 1));
  EXPECT_EQ(failure_in("loss 0.3", 0), "");
}

TEST_F(Told, WhatSshSaysIsKeptApartUntilTheHostIsReached) {
  auto t = of({{"", true}, {"[rank 1 @ b] ", true}});
  t.add(0, Stream::kOutput, "Welcome!\nentrain-rank-rea");
  t.add(0, Stream::kErrors, "a banner\nentrain-rank-reached\nlog\n");
  t.add(0, Stream::kOutput, "ched\n{}\n");
  t.add(1, Stream::kErrors, "Permission denied (publickey).\n");
  t.end(1);
  EXPECT_EQ(out, "{}\n");
  EXPECT_EQ(err, "Welcome!\nlog\n");
  EXPECT_EQ(t.unreached(0), std::nullopt);
  EXPECT_EQ(t.unreached(1), "Permission denied (publickey).\n");
}

}  // namespace
}  // namespace entrain::app
