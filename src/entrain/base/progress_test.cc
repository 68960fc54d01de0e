#include "entrain/base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
}

TEST(Progress, TheTimeLeftIsInWholeSecondsAndNeverZero) {
  EXPECT_EQ(format_eta(1e-7), "1 s");
  EXPECT_EQ(format_eta(7.6), "8 s");
  EXPECT_EQ(format_eta(150.2), "2 min 30 s");
}

TEST(Progress, TheEndShowsTheTimeItTookAndTheStartNoRate) {
  EXPECT_EQ(progress_line({"step", 20, 20, 5, 4.2, "loss 1.0"}, 0), "step 20/20 5.00 it/s in 4 s  loss 1.0");
  EXPECT_EQ(progress_line({"step", 101, 200, 0, 0.2, ""}, 0), "step 101/200");
  EXPECT_EQ(progress_line({"step", 7, 0, 10, 0.7, ""}, 60), "step 7 10.0 it/s");
}

}  // namespace
}  // namespace entrain::detail
