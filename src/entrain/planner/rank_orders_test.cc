#include "entrain/planner/rank_orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/planner/testing.h"

namespace entrain::planner {
namespace {

using testing::chain;
using ::testing::ElementsAre;
using testing::hosts;

const graph::Graph& model() {
  static const graph::Graph graph = chain({{1, 2, 4, 4}, {1, 2, 4, 4}, {1, 2, 4, 4}});
  return graph;
}

TEST(RankOrders, AreDifferentInWhatTheRanksCanDo) {
  const auto alike = hosts({{1, 1, 10}, {1, 1, 10}, {1, 1, 10}});
  EXPECT_EQ(rank_orders(Estimator(model(), alike, 4)).size(), 1u);
  const auto unlike = hosts({{2, 0.5, 10}, {1, 1, 5}});
  const auto orders = rank_orders(Estimator(model(), unlike, 4));
  EXPECT_EQ(orders[0], (std::vector<int>{2, 0, 1}));  // the fastest first
  EXPECT_NE(std::find(orders.begin(), orders.end(), std::vector<int>{0, 1, 2}), orders.end());
  EXPECT_NE(std::find(orders.begin(), orders.end(), std::vector<int>{0, 2, 1}),
            orders.end());  // across hosts
}

TEST(CellWidths, AreAllForFewRanksElsePowersOfTwoAndWholeHosts) {
  const auto few = hosts({{3, 1, 10}});
  EXPECT_EQ(cell_widths(Estimator(model(), few, 4), 3), (std::vector<int>{1, 2, 3}));
  const auto many = hosts({{6, 1, 10}, {6, 1, 10}, {6, 1, 10}});
  EXPECT_EQ(cell_widths(Estimator(model(), many, 4), 18), (std::vector<int>{1, 2, 4, 6, 8, 12, 16, 18}));
}

TEST(RankOrders, AreBySpeedByLinkAndBackwardsAndOfTheBestHalves) {
  const auto cluster = hosts({{1, 1, 5}, {1, 0.9, 6}, {1, 0.8, 7}, {1, 0.7, 8}});
  EXPECT_THAT(
      rank_orders(Estimator(model(), cluster, 4)),
      ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(3, 2, 1, 0), ElementsAre(1, 0), ElementsAre(2, 3)));
}

TEST(RankOrders, OfEqualSpeedAreByLinkAndTheOtherWayRound) {
  const auto by_link = hosts({{1, 1, 5}, {1, 1, 6}, {1, 0.5, 6}});
  EXPECT_THAT(rank_orders(Estimator(model(), by_link, 4)),
              ElementsAre(ElementsAre(1, 0, 2), ElementsAre(2, 0, 1), ElementsAre(1, 2, 0),
                          ElementsAre(0, 2, 1), ElementsAre(0, 1, 2), ElementsAre(2, 1, 0)));
}

TEST(RankOrders, KeepHostsTogetherOrGoAcrossThem) {
  const auto cluster = hosts({{2, 0.5, 10}, {0, 1, 10}, {1, 1, 5}});
  EXPECT_THAT(rank_orders(Estimator(model(), cluster, 4)),
              ElementsAre(ElementsAre(3, 0, 1), ElementsAre(0, 1, 3), ElementsAre(0, 3, 1)));
}

TEST(CellWidths, AreEveryNumberUpToEightRanks) {
  const auto eight = hosts({{4, 1, 10}, {4, 1, 10}});
  EXPECT_THAT(cell_widths(Estimator(model(), eight, 16), 8), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  const auto nine = hosts({{9, 1, 10}});
  EXPECT_THAT(cell_widths(Estimator(model(), nine, 16), 9), ElementsAre(1, 2, 4, 8, 9));
}

}  // namespace
}  // namespace entrain::planner
