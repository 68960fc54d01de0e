#include "entrain/plan/moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/base/error.h"

namespace entrain::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Moves, NobodyIsSentWhatHeHas) {
  EXPECT_THAT(moves({{10, {0, 1}, {0, 1}}, {10, {0, 1}, {1}}}), IsEmpty());
  const std::vector<Held> things{{10, {0}, {0, 2}}, {7, {1}, {0, 1, 2}}};
  const auto made = moves(things);
  EXPECT_THAT(made, ElementsAre(Move{0, 0, 2}, Move{1, 1, 0}, Move{1, 1, 2}));
  EXPECT_EQ(bytes_of(made, things), 10 + 2 * 7);
}

TEST(Moves, ThoseWhoHaveSentLeastSend) {
  EXPECT_THAT(moves({{10, {0, 1}, {2}}, {5, {0, 1}, {2}}, {1, {0, 1}, {2}}, {1, {0, 1}, {3}}}),
              ElementsAre(Move{0, 0, 2}, Move{1, 1, 2}, Move{2, 1, 2}, Move{3, 1, 3}));
}

TEST(Moves, WhatNobodyHasCannotBeWanted) { EXPECT_THROW(moves({{1, {}, {0}}}), Error); }

}  // namespace
}  // namespace entrain::plan
