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
  EXPECT_DOUBLE_EQ(bound.chain_s, 3 / 0.5);
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

TEST(LowerBound, AModelThatTrainsNothingNeedsNoLink) {
  const Bound bound = lower_bound(chain({{0.001, 0.002, 0, 4}}), hosts({{1, 1, 1}, {1, 1, 1}}), 8);
  EXPECT_DOUBLE_EQ(bound.seconds, 8 * 0.001 / 2);
  EXPECT_EQ(bound.links_s, 0);
  EXPECT_EQ(bound.host, -1);
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

TEST(LowerBound, ASpreadLayerWaitsForItsSumBetweenBackwardAndForward) {
  // One example takes 3, its gradient 100 / 20; 4 examples on one host take 12, on two 6.
  const auto graph = chain({{1, 2, 100, 4}});
  EXPECT_NEAR(lower_bound(graph, hosts({{1, 1, 20}, {1, 1, 20}}), 4).seconds, 3 + 5, 1e-4);
  EXPECT_NEAR(lower_bound(graph, hosts({{1, 1, 5}, {1, 1, 5}}), 4).seconds, 12, 1e-4);
}

TEST(LowerBound, ALayerThatIsTooMuchForOneHostIsSpreadAndWaitsForItsSum) {
  // 4 examples take 36 in all and the first layer's 24 alone; spread, the chain of 9 and its 140 bytes at 10
  // per second, the second-fastest link. Work and bytes by themselves would allow 18.
  const auto graph = chain({{2, 4, 140, 1}, {1, 2, 1000000, 1}});
  EXPECT_NEAR(lower_bound(graph, hosts({{1, 1, 1e9}, {1, 1, 10}, {1, 1, 5}}), 4).seconds, 9 + 14, 1e-3);
  EXPECT_NEAR(lower_bound(graph, hosts({{1, 1, 1e9}, {1, 1, 8}, {1, 1, 5}}), 4).seconds, 24, 1e-3);
}

TEST(LowerBound, AllExamplesCrossTheCutOfTwoCells) {
  // The first forward takes 1; 4 x 30 bytes cross at 10 per second; forward and backward of the last layer 3;
  // 30 bytes come back; a backward takes 2.
  const auto graph = chain({{1, 2, 1000000, 30}, {1, 2, 1000000, 30}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  EXPECT_NEAR(lower_bound(graph, cluster, 4).seconds, 1 + 12 + 3 + 3 + 2, 1e-3);
  const strategy::Shape pipeline{{{0, 1, {0}}, {1, 2, {1}}}, 4, "gpipe", pipeline::Remat::kNever};
  EXPECT_GE(testing::Timeline(graph, cluster, pipeline, 4).period(), 21);
}

TEST(LowerBound, ManyHostsSendMoreThanTheirOwnGradients) {
  // 100 bytes; k hosts send 2 (k - 1) x 100 among them. At 10 per second each: 2 of 4 hosts at 5 seconds, 3
  // at 10, 4 at 15; after a chain of 3 each needs 10 for its own. 16 examples take 48 / k.
  const auto graph = chain({{1, 2, 100, 4}});
  const std::vector<testing::HostSpec> four(4, {1, 1, 10});
  EXPECT_NEAR(lower_bound(graph, hosts(four), 16).seconds, 15, 1e-3);
  // A host that only serves has a link, too.
  auto with_server = hosts(four);
  with_server.hosts.push_back(with_server.hosts[0]);
  with_server.hosts.back().workers = 0;
  EXPECT_NEAR(lower_bound(graph, with_server, 16).seconds, 13, 1e-3);
}

TEST(LowerBound, RowsOfASparseVariableNeedNotReachEveryHostThatHoldsAll) {
  // As above, and a table of which 8 examples touch 8 rows: 148 bytes of each host, 14.8 seconds.
  auto graph = chain({{1, 2, 100, 4}});
  graph.variables.push_back(
      {.name = "table", .shape = {1000, 1}, .sparse = true, .ready_order = 1, .rows_per_step = 8});
  graph.layers[0].variables = {0, 1};
  EXPECT_NEAR(lower_bound(graph, hosts(std::vector<testing::HostSpec>(4, {1, 1, 10})), 16).seconds, 15, 1e-3);
}

TEST(LowerBound, ASparseVariableCountsItsRowsHalfInEachDirection) {
  // 8 examples touch 8 rows of 4 + 8 bytes: 48 on the busier direction at least. Not the table's 4000.
  auto graph = chain({{1, 2, 4000, 4}});
  graph.variables[0].shape = {1000, 1};
  graph.variables[0].sparse = true;
  graph.variables[0].rows_per_step = 8;
  const auto cluster = hosts({{1, 1, 3}, {1, 1, 3}});
  EXPECT_NEAR(lower_bound(graph, cluster, 8).seconds, 48 / 3.0, 1e-3);
  EXPECT_NEAR(lower_bound(graph, cluster, 4).seconds, 24 / 3.0, 1e-3);  // half of the examples touch half
  graph.batch_size = 0;  // how many examples touched them is not known
  EXPECT_NEAR(lower_bound(graph, cluster, 8).seconds, 8 * 3 / 2.0, 1e-3);
}

TEST(LowerBound, ATiedVariableIsCountedOnce) {
  auto tied = chain({{1, 2, 100, 1000000}, {1, 2, 4, 1000000}});
  tied.layers[1].variables.push_back(0);
  std::sort(tied.layers[1].variables.begin(), tied.layers[1].variables.end());
  // 104 bytes at 10 per second, which the chain of 6 and 100 of them need more.
  EXPECT_NEAR(lower_bound(tied, hosts({{1, 1, 10}, {1, 1, 10}}), 4).seconds, 6 + 10, 1e-3);
}

TEST(LowerBound, AMeasuredPairMayBeFasterThanTheNominalLink) {
  const auto graph = chain({{1, 2, 100, 4}});
  auto cluster = hosts({{1, 1, 20}, {1, 1, 20}});
  cluster.links.push_back({0, 1, 100 * 8e-9, 0});
  EXPECT_NEAR(lower_bound(graph, cluster, 4).seconds, 6, 1e-3);  // compute: 3 + 100 / 100 is less
}

TEST(LowerBound, LongChainsLimitTheSizeOfMicroBatches) {
  // 8 examples at once take 2 x 10 + 8 x 3 = 44, one by one 8 x 23: on two ranks of fast hosts either the
  // chain of a large micro-batch binds or the work of small ones.
  const auto graph = chain({{1, 2, 4, 4, 10}});
  const auto cluster = hosts({{1, 1, 1e9}, {1, 1, 1e9}});
  const Bound bound = lower_bound(graph, cluster, 8);
  // At most 4 examples: the chain 20 + 12 and the work 2 x 32 / 2; at most 3: 3 x 29 / ... is more.
  EXPECT_NEAR(bound.seconds, 32, 1e-3);
}

TEST(LowerBound, OneExampleAtATimeMayBeTheLeastWork) {
  // Two together take four times as long as one.
  auto graph = chain({{1, 2, 4, 4}, {1, 2, 4, 4}});
  for (auto& layer : graph.layers) layer.times = {{1, 1, 2}, {2, 4, 8}, {8, 16, 32}};
  const Bound bound = lower_bound(graph, hosts({{1, 1, 1e9}, {1, 1, 1e9}}), 8);
  EXPECT_NEAR(bound.compute_s, 8 * 6 / 2.0, 1e-3);
  EXPECT_NEAR(bound.links_s, 8 * 6 / 2.0, 1e-3);
  EXPECT_NEAR(bound.chain_s, 6, 1e-3);
}

TEST(LowerBound, OfAJobOfMillisecondsIsInMilliseconds) {
  const auto graph = chain({{0.001, 0.002, 4, 4}, {0.001, 0.002, 4, 4}});
  const Bound bound = lower_bound(graph, hosts({{1, 1, 1e9}, {1, 1, 1e9}}), 8);
  EXPECT_NEAR(bound.links_s, 8 * 0.006 / 2, 1e-6);
  EXPECT_NEAR(bound.seconds, 8 * 0.006 / 2, 1e-6);
}

TEST(LowerBound, RefusesWhatHasNoProfile) {
  auto graph = chain({{1, 2, 4, 4}});
  EXPECT_THROW(lower_bound(graph, hosts({{}}), 0), InputError);
  graph.layers[0].times.clear();
  EXPECT_THROW(lower_bound(graph, hosts({{}}), 4), InputError);
}

}  // namespace
}  // namespace entrain::planner
