#include "entrain/planner/shape_moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "entrain/planner/testing.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::planner {
namespace {

using strategy::parse_shape;
using strategy::Shape;
using testing::chain;
using testing::hosts;
using ::testing::UnorderedElementsAre;

// Everything that one change makes of a shape.
class OneChange : public ::testing::Test {
 protected:
  std::set<std::string> of(const std::string& text) {
    const Estimator estimator(graph, cluster, examples, {}, {1, 0, 0});
    const Shape shape = parse_shape(text, static_cast<int>(graph.layers.size()));
    Rng rng(1);
    std::set<std::string> results;
    for (int i = 0; i < 4000; ++i) {
      if (const auto changed = change(estimator, shape, rng)) results.insert(strategy::to_text(*changed));
    }
    EXPECT_FALSE(results.count(strategy::to_text(shape))) << "nothing changed";
    return results;
  }
  // Of those, what has as many micro-batches, is recomputed and scheduled as `text`.
  std::set<std::string> placed(const std::string& text, const std::string& tail) {
    std::set<std::string> results;
    for (const std::string& result : of(text + " " + tail)) {
      const auto at = result.find(" " + tail);
      if (at != std::string::npos && at + 1 + tail.size() == result.size())
        results.insert(result.substr(0, at));
    }
    return results;
  }
  graph::Graph graph = chain({{1, 2, 4, 4}, {1, 2, 4, 4}, {1, 2, 4, 4}, {1, 2, 4, 4}});
  cluster::Cluster cluster = hosts({{1, 1, 10}, {1, 1, 10}, {1, 1, 10}});
  int64_t examples = 8;
};

TEST_F(OneChange, OfARankAloneSplitsItJoinsItOrMovesIt) {
  EXPECT_THAT(
      placed("@0", "m=4 remat=never"),
      UnorderedElementsAre("0-1@0 2-3@0", "0-1@0 2-3@1", "0-1@0 2-3@2", "0-2@0 3@0", "0-2@0 3@1", "0-2@0 3@2",
                           "0@0 1-3@0", "0@0 1-3@1", "0@0 1-3@2", "@0,2", "@0-1", "@1", "@2"));
}

TEST_F(OneChange, OfTwoCellsMovesTheirCutByOneOrTwoMergesAndExchanges) {
  EXPECT_THAT(placed("0-1@0 2-3@1", "m=4 remat=never"),
              UnorderedElementsAre("0-1@0 2-3@0", "0-1@0 2-3@1-2", "0-1@0 2-3@2", "0-1@0 2@1 3@0",
                                   "0-1@0 2@1 3@1", "0-1@0 2@1 3@2", "0-1@0,2 2-3@1", "0-1@1 2-3@0",
                                   "0-1@1 2-3@1", "0-1@2 2-3@1", "0-2@0 3@1", "0@0 1-3@1", "0@0 1@0 2-3@1",
                                   "0@0 1@1 2-3@1", "0@0 1@2 2-3@1", "@0", "@0-1", "@1"));
}

// One of three that has a layer more gets fewer examples of the others, or none.
TEST_F(OneChange, OfReplicasSplitsThemInHalvesOrGivesOneOfThemAPart) {
  auto results = placed("@0-2", "m=4 remat=never");
  std::set<std::string> shares, splits;
  for (const auto& result : results) {
    if (result.find(' ') != std::string::npos) splits.insert(result);
    if (result.find(' ') == std::string::npos && result.find('*') != std::string::npos) shares.insert(result);
  }
  EXPECT_EQ(shares.size(), 6u) << "one example from any of three to any other";
  for (const auto& result : shares) results.erase(result);
  for (const auto& result : splits) results.erase(result);
  EXPECT_THAT(results, UnorderedElementsAre("@0-1", "@0,2", "@1-2", "@1,0,2", "@0,2,1", "@2,1,0"));
  EXPECT_THAT(splits, UnorderedElementsAre(
                          "0@0 1-3@1-2", "0@0 1-3@0*0.125,1*0.5,2*0.375", "0@1 1-3@0*0.5,1*0.125,2*0.375",
                          "0@2 1-3@0*0.5,1*0.375,2*0.125", "0@1-2 1-3@0", "0@0,2 1-3@1", "0@0-1 1-3@2",  //
                          "0-1@0 2-3@1-2", "0-1@1 2-3@0,2", "0-1@2 2-3@0-1", "0-1@1-2 2-3@0", "0-1@0,2 2-3@1",
                          "0-1@0-1 2-3@2",  //
                          "0-2@0 3@1-2", "0-2@1 3@0,2", "0-2@2 3@0-1", "0-2@0*0.125,1*0.5,2*0.375 3@0",
                          "0-2@0*0.5,1*0.125,2*0.375 3@1", "0-2@0*0.5,1*0.375,2*0.125 3@2"));
}

TEST_F(OneChange, OfAPairWithSharesMovesOneExampleOrFour) {
  graph = chain({{1, 2, 4, 4}});
  cluster = hosts({{1, 1, 10}, {1, 0.5, 10}});
  EXPECT_THAT(placed("@0*.625,1*.375", "m=4 remat=never"),
              UnorderedElementsAre("@0", "@0*0.125,1*0.875", "@0*0.75,1*0.25", "@0-1", "@0-1*0.5", "@1",
                                   "@1*0.375,0*0.625"));
}

TEST_F(OneChange, HalvesDoublesOrCountsUpMicroBatchesAndChangesRecomputationAndSchedule) {
  graph = chain({{1, 2, 4, 4}, {1, 2, 4, 4}});
  cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  EXPECT_THAT(of("0@0 1@1 m=4 remat=never"),
              UnorderedElementsAre(
                  "0@0 1@0 m=4 remat=never", "0@0 1@1 m=2 remat=never", "0@0 1@1 m=3 remat=never",
                  "0@0 1@1 m=4", "0@0 1@1 m=4 remat=always", "0@0 1@1 m=4 schedule=gpipe remat=never",
                  "0@0 1@1 m=4 schedule=interleaved remat=never", "0@0 1@1 m=5 remat=never",
                  "0@0 1@1 m=8 remat=never", "0@1 1@0 m=4 remat=never", "0@1 1@1 m=4 remat=never",
                  "@0 m=4 remat=never", "@0-1 m=4 remat=never", "@1 m=4 remat=never"));
}

TEST_F(OneChange, LeavesNoCellWithoutRanksOrLayers) {
  graph = chain({{1, 2, 4, 4}});
  cluster = hosts({{1, 1, 10}});
  EXPECT_THAT(of("@0 m=1 remat=never"),
              UnorderedElementsAre("@0 m=1", "@0 m=1 remat=always", "@0 m=2 remat=never"));
}

// Ten examples through a layer of 4.5 seconds; the other layer takes 1.5.
std::string rebalanced(const std::string& text, double speed_of_rank_0) {
  const auto graph = chain({{1.5, 3, 4, 4}, {0.5, 1, 4, 4}});
  const auto cluster = hosts({{1, speed_of_rank_0, 10}, {1, 1, 10}, {1, 1, 10}});
  Shape shape = parse_shape(text, 2);
  rebalance(Estimator(graph, cluster, 10, {}, {1, 0, 0}), shape, 0);
  return strategy::to_text(shape);
}

TEST(Rebalance, GivesARankLessOfACellTheMoreItHasOfOthers) {
  EXPECT_EQ(rebalanced("0@0-2 1@0 m=4", 1), "0@0*0.1,1*0.5,2*0.4 1@0 m=4");  // 15 + 4.5, 22.5 and 18
  EXPECT_EQ(rebalanced("0@0-2 1@0*.8,2*.2 m=4", 1), "0@0*0.2,1-2*0.4 1@0*0.8,2*0.2 m=4");
  EXPECT_EQ(rebalanced("0@0-2 1@1 m=4", 1), "0@0*0.5,1*0.1,2*0.4 1@1 m=4");
}

TEST(Rebalance, ARankThatIsBusyAllTheTimeLeavesTheCell) {
  EXPECT_EQ(rebalanced("0@0-2 1@0 m=4", 0.5), "0@1-2 1@0 m=4");  // 30, when the others take 22.5
  EXPECT_EQ(rebalanced("0@0*.5,1*.5 1@0 m=4", 0.1), "0@1 1@0 m=4");
  EXPECT_EQ(rebalanced("0@0*.5,1*.5 1@2 m=4", 1), "0@0-1 1@2 m=4");
}

}  // namespace
}  // namespace entrain::planner
