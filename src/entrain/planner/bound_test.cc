#include "entrain/planner/bound.h"

#include <gtest/gtest.h>

#include "entrain/base/error.h"
#include "entrain/planner/testing.h"

namespace entrain::planner {
namespace {

using testing::chain;
using testing::hosts;
using Part = Bound::Part;

TEST(LowerBound, OfOneRankIsTheWorkOfAllExamples) {
  const Bound bound = lower_bound(chain({{1, 2, 4, 4}, {2, 4, 4, 4}}), hosts({{}}), 5);
  EXPECT_DOUBLE_EQ(bound.compute_s, 5 * 9);
  EXPECT_DOUBLE_EQ(bound.seconds, 45);
  EXPECT_EQ(bound.binds, Part::kCompute);
}

TEST(LowerBound, CountsAllRanksOfAHostAndTheirSpeed) {
  const Bound bound = lower_bound(chain({{1, 2, 4, 4}}), hosts({{3, 0.5, 1}}), 6);
  EXPECT_DOUBLE_EQ(bound.seconds, 6 * 3 / 1.5);
}

TEST(LowerBound, TakesTheBestSizeThatWasProfiledAndFitsTheUpdate) {
  // A pass takes 2 more seconds whatever its size: 8 examples take 8 x 3 + 2.
  const auto graph = chain({{1, 2, 4, 4, 1}});
  EXPECT_DOUBLE_EQ(lower_bound(graph, hosts({{}}), 16).compute_s, 16 * 26 / 8.0);
  EXPECT_DOUBLE_EQ(lower_bound(graph, hosts({{}}), 4).compute_s, 4 * 3 + 2);
}

TEST(LowerBound, OneExampleGoesThroughAllLayersAndBack) {
  const Bound bound = lower_bound(chain({{1, 2, 4, 4}, {2, 4, 4, 4}}), hosts({{1, 1, 1e9}, {1, 2, 1e9}}), 1);
  EXPECT_DOUBLE_EQ(bound.chain_s, 9 / 2.0);
  EXPECT_EQ(bound.binds, Part::kChain);
}

TEST(LowerBound, LayersThatTrainNothingHaveNoBackwardAndAreNotInTheChain) {
  const Bound bound = lower_bound(chain({{1, 2, 0, 4}, {2, 4, 4, 4}}), hosts({{}}), 1);
  EXPECT_DOUBLE_EQ(bound.compute_s, 1 + 6);
  EXPECT_DOUBLE_EQ(bound.chain_s, 6);
}

TEST(LowerBound, OneHostAloneIsBestOnLinksThatCarryNothing) {
  const Bound bound =
      lower_bound(chain({{1, 2, 400, 400}, {1, 2, 400, 400}}), hosts({{1, 1, 0.001}, {1, 2, 0.001}}), 8);
  EXPECT_NEAR(bound.seconds, 8 * 6 / 2.0, 1e-3);
  EXPECT_EQ(bound.binds, Part::kLinks);
}

TEST(LowerBound, NamesTheHostWhoseLinkBinds) {
  const auto graph = chain({{1, 2, 400, 4000}, {1, 2, 400, 4000}});
  EXPECT_EQ(lower_bound(graph, hosts({{1, 1, 1e9}, {1, 1, 1e9}, {1, 1, 20}}), 8).host, 2);
}

TEST(LowerBound, HostsThatShareCoresComputeTogetherWhatTheCoresCan) {
  const auto graph = chain({{1, 2, 4, 4}});
  const auto cluster = hosts({{1, 1, 1e9}, {1, 1, 1e9}, {1, 1, 1e9}});
  EXPECT_DOUBLE_EQ(lower_bound(graph, cluster, 12, {.shared_speed = 2}).compute_s, 12 * 3 / 2.0);
}

TEST(LowerBound, RefusesWhatHasNoProfile) {
  auto graph = chain({{1, 2, 4, 4}});
  EXPECT_THROW(lower_bound(graph, hosts({{}}), 0), InputError);
  graph.layers[0].times.clear();
  EXPECT_THROW(lower_bound(graph, hosts({{}}), 4), InputError);
}

}  // namespace
}  // namespace entrain::planner
