#include "entrain/base/near_equal.h"

#include <gmock/gmock.h>

#include <vector>

namespace entrain {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> sizes(int64_t count, int64_t parts) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < parts; ++i) result.push_back(NearEqualParts(count, parts).size(i));
  return result;
}

std::vector<int64_t> spread_sizes(int64_t count, int64_t parts) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < parts; ++i) {
    result.push_back(spread_begin(count, parts, i + 1) - spread_begin(count, parts, i));
  }
  return result;
}

TEST(NearEqualParts, TheFirstHoldOneMore) {
  EXPECT_THAT(sizes(7, 3), ElementsAre(3, 2, 2));
  EXPECT_THAT(sizes(8, 3), ElementsAre(3, 3, 2));
  EXPECT_THAT(sizes(9, 3), ElementsAre(3, 3, 3));
  EXPECT_THAT(sizes(2, 3), ElementsAre(1, 1, 0));
  EXPECT_THAT(sizes(5, 1), ElementsAre(5));
}

TEST(NearEqualParts, CoverEverythingOnce) {
  for (const int64_t count : {0, 1, 7, 100}) {
    const NearEqualParts parts(count, 7);
    int64_t next = 0;
    for (int part = 0; part < 7; ++part) {
      EXPECT_EQ(parts.begin(part), next);
      EXPECT_EQ(parts.end(part), next + parts.size(part));
      next = parts.end(part);
    }
    EXPECT_EQ(next, count);
  }
}

TEST(SpreadParts, LongerOnesAreSpread) {
  EXPECT_THAT(spread_sizes(7, 3), ElementsAre(2, 2, 3));
  EXPECT_THAT(spread_sizes(5, 3), ElementsAre(1, 2, 2));
  EXPECT_THAT(spread_sizes(10, 4), ElementsAre(2, 3, 2, 3));
  EXPECT_EQ(spread_begin(10, 4, 0), 0);
  EXPECT_EQ(spread_begin(10, 4, 4), 10);
}

}  // namespace
}  // namespace entrain
