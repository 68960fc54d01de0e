#include "entrain/base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <cstdlib>

namespace entrain::detail {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const ProgressState kTune{"trial", 45, 75, 1.2, 40, "best 57 ms, 1.19x the best builder, hit rate 92%"};

TEST(Progress, NeverIsWiderThanTheTerminal) {
  for (int columns = 1; columns < 140; ++columns) {
    EXPECT_LE(progress_line(kTune, columns).size(), static_cast<size_t>(columns)) << columns;
  }
  EXPECT_LE(progress_line(kTune, 79).size(), 79u);
  EXPECT_THAT(progress_line(kTune, 79), HasSubstr("trial 45/75"));
}

TEST(Progress, GivesUpTheBarBeforeTheNoteAndTheNoteBeforeTheCount) {
  EXPECT_THAT(progress_line(kTune, 120), HasSubstr("[##############..........]"));
  EXPECT_THAT(progress_line(kTune, 95), HasSubstr("["));
  const std::string narrow = progress_line(kTune, 80);
  EXPECT_THAT(narrow, Not(HasSubstr("[")));
  EXPECT_THAT(narrow, HasSubstr("hit rate 92%"));
  EXPECT_EQ(progress_line(kTune, 30), "trial 45/75 ETA 25 s  best ...");
  EXPECT_EQ(progress_line(kTune, 11), "trial 45...");
}

TEST(Progress, CutsBetweenCharactersNotInsideOfThem) {
  ProgressState state{"step", 1, 9, 0, 0, "größe-größe-größe"};
  EXPECT_EQ(progress_line(state, 16), "step 1/9  grö...");
}

// " [" and "]" take 3 columns: a bar of 6 to 24 fits, or none.
TEST(Progress, TheBarTakesTheRoomThatIsLeft) {
  const ProgressState half{"step", 3, 6, 0, 1, ""};
  EXPECT_EQ(progress_line(half, 100), "step 3/6 [############............]");
  EXPECT_EQ(progress_line(half, 8 + 3 + 24), "step 3/6 [############............]");
  EXPECT_EQ(progress_line(half, 8 + 3 + 23), "step 3/6 [###########............]");
  EXPECT_EQ(progress_line(half, 8 + 3 + 6), "step 3/6 [###...]");
  EXPECT_EQ(progress_line(half, 8 + 3 + 5), "step 3/6");
  EXPECT_EQ(progress_line({"step", 6, 6, 0, 9, ""}, 40), "step 6/6 [######################] in 9 s");
  EXPECT_EQ(progress_line({"step", 9, 6, 0, 9, ""}, 40), "step 9/6 [######################] in 9 s");
  EXPECT_EQ(progress_line({"step", 0, 6, 0, 9, ""}, 30), "step 0/6 [...................]");
}

TEST(Progress, IsCutToAnyWidth) {
  const ProgressState state{"step", 1, 9, 0, 0, "a long note"};
  EXPECT_EQ(progress_line(state, 21), "step 1/9  a long note");
  EXPECT_EQ(progress_line(state, 20), "step 1/9  a long ...");
  EXPECT_EQ(progress_line(state, 7), "step...");
  EXPECT_EQ(progress_line(state, 6), "step 1");
  EXPECT_EQ(progress_line(state, 1), "s");
  EXPECT_EQ(progress_line({"step", 4, 9, 2, 1, "note"}, 28), "step 4/9 ETA 3 s  note");  // without the rate
  EXPECT_EQ(progress_line({"step", 4, 9, 2, 1, "note"}, 22), "step 4/9 ETA 3 s  note");
  EXPECT_EQ(progress_line({"step", 4, 9, 2, 1, "note"}, 21), "step 4/9 ETA 3 s  ...");
  EXPECT_EQ(progress_line({"step", 4, 9, 2, 1, "note"}, 32), "step 4/9 2.00 it/s ETA 3 s  note");
}

TEST(Progress, APipeGetsTheWholeLineWithoutABar) {
  EXPECT_EQ(progress_line(kTune, 0),
            "trial 45/75 1.20 it/s ETA 25 s  best 57 ms, 1.19x the best builder, hit rate 92%");
}

TEST(Progress, RatesHaveSensibleDigits) {
  EXPECT_EQ(format_rate(104014.98), "104k it/s");
  EXPECT_EQ(format_rate(2.5e6), "2M it/s");
  EXPECT_EQ(format_rate(1234.5), "1234 it/s");
  EXPECT_EQ(format_rate(12.34), "12.3 it/s");
  EXPECT_EQ(format_rate(1.234), "1.23 it/s");
  EXPECT_EQ(format_rate(0.25), "4.00 s/it");
  EXPECT_EQ(format_rate(1), "1.00 it/s");
  EXPECT_EQ(format_rate(10), "10.0 it/s");
  EXPECT_EQ(format_rate(100), "100 it/s");
  EXPECT_EQ(format_rate(1e4), "10k it/s");
  EXPECT_EQ(format_rate(1e6), "1M it/s");
}

TEST(Progress, TheTimeLeftIsInWholeSecondsAndNeverZero) {
  EXPECT_EQ(format_eta(1e-7), "1 s");
  EXPECT_EQ(format_eta(7.6), "8 s");
  EXPECT_EQ(format_eta(150.2), "2 min 30 s");
  EXPECT_EQ(format_eta(59.4), "59 s");
  EXPECT_EQ(format_eta(59.6), "1 min 00 s");
}

TEST(Progress, TheEndShowsTheTimeItTookAndTheStartNoRate) {
  EXPECT_EQ(progress_line({"step", 20, 20, 5, 4.2, "loss 1.0"}, 0), "step 20/20 5.00 it/s in 4 s  loss 1.0");
  EXPECT_EQ(progress_line({"step", 101, 200, 0, 0.2, ""}, 0), "step 101/200");
  EXPECT_EQ(progress_line({"step", 7, 0, 10, 0.7, ""}, 60), "step 7 10.0 it/s");
}

TEST(Progress, APipeGetsTheFirstAndTheLastLineAtOnce) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress("step", 9), silent("step", 9, false);
    progress.update(1, "loss 2");
    progress.update(2);
    silent.update(9);
  }
  {
    Progress progress("epoch", 3);
    progress.update(3);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "step 1/9  loss 2\nepoch 3/3 in 1 s\n");
}

// What a terminal of so many columns gets for step 3 of 6.
std::string on_terminal(unsigned short columns) {
  int terminal = -1, program = -1;
  winsize size{24, columns, 0, 0};
  EXPECT_EQ(openpty(&terminal, &program, nullptr, nullptr, &size), 0);
  const int before = dup(STDERR_FILENO);
  dup2(program, STDERR_FILENO);
  setenv("TERM", "xterm", 1);
  { Progress("step", 6).update(3); }
  dup2(before, STDERR_FILENO);
  std::string text;
  char part[200];
  while (!text.ends_with('\n')) {  // the kernel may hand over a line in parts
    const ssize_t n = read(terminal, part, sizeof part);
    if (n <= 0) break;
    text.append(part, static_cast<size_t>(n));
  }
  for (const int fd : {terminal, program, before}) close(fd);
  return text;
}

// The last column stays free.
TEST(Progress, ATerminalGetsALineThatFits) {
  EXPECT_EQ(on_terminal(19), "\r\033[Kstep 3/6 [###....]\r\n");
  EXPECT_EQ(on_terminal(0), "\r\033[Kstep 3/6 [############............]\r\n");
  EXPECT_EQ(on_terminal(5), "\r\033[Kstep\r\n");
  EXPECT_EQ(on_terminal(1), "\r\033[Ks\r\n");
}

}  // namespace
}  // namespace entrain::detail
