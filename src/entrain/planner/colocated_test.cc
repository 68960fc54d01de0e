#include "entrain/planner/colocated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/planner/testing.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::planner {
namespace {

using strategy::Shape;
using strategy::to_text;
using testing::chain;
using testing::hosts;
using ::testing::UnorderedElementsAre;

std::vector<std::string> texts(const std::vector<Shape>& shapes) {
  std::vector<std::string> all;
  for (const Shape& shape : shapes) all.push_back(to_text(shape));
  return all;
}

const graph::Graph& model() {
  static const graph::Graph graph = chain({{1, 2, 4, 4}, {1, 2, 4, 4}, {1, 2, 4, 4}});
  return graph;
}

TEST(WholeModels, AreOnARankOfEachKindOnAHostAndOnTheFirstHostsOfEachOrder) {
  const auto cluster = hosts({{2, 1, 10}, {1, 0.5, 10}});
  const Estimator estimator(model(), cluster, 10);
  EXPECT_THAT(texts(whole_models(estimator, {{0, 1, 2}})),
              UnorderedElementsAre("@0 m=1 remat=never", "@0 m=2 remat=never", "@0 m=4 remat=never",
                                   "@0 m=8 remat=never", "@0-1 m=2 remat=never", "@0-1 m=4 remat=never",
                                   "@0-1 m=8 remat=never", "@0-1*0.4,2*0.2 m=3 remat=never",
                                   "@0-1*0.4,2*0.2 m=6 remat=never", "@2 m=1 remat=never",
                                   "@2 m=2 remat=never", "@2 m=4 remat=never", "@2 m=8 remat=never"));
}

TEST(CoLocated, CutEverywhereWithOneRankOfEachKindThatHoldsTheHeadOrTheTail) {
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}});
  const Estimator estimator(model(), cluster, 12);
  // An owner of two of three layers gets no examples of the third.
  EXPECT_THAT(texts(co_located(estimator, {{0, 1}}, {1, 2, 12, 13})),
              UnorderedElementsAre("0@1 1-2@0 m=2 remat=never", "0@0 1-2@0*0.25,1*0.75 m=2 remat=never",
                                   "0-1@0*0.25,1*0.75 2@0 m=2 remat=never", "0-1@0 2@1 m=2 remat=never",
                                   "0@1 1-2@0 m=12 remat=never", "0@0 1-2@0*0.25,1*0.75 m=12 remat=never",
                                   "0-1@0*0.25,1*0.75 2@0 m=12 remat=never", "0-1@0 2@1 m=12 remat=never"));
  const auto unlike = hosts({{1, 1, 10}, {1, 1, 20}});
  EXPECT_EQ(co_located(Estimator(model(), unlike, 12), {{0, 1}}, {2}).size(), 8u) << "each is an owner";
}

TEST(AroundOneOwner, HoldsTheHeadAndHasAMicroBatchForEveryReplica) {
  // The head's 0.75 x 10 and 2 x 6 take the owner 19.5; the others 4 x 6.
  const auto graph = chain({{0.25, 0.5, 4, 4}, {1, 2, 4, 4}, {1, 2, 4, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}, {1, 1, 10}});
  const Estimator estimator(graph, cluster, 10);
  EXPECT_EQ(to_text(around_one_owner(estimator, {0, 1, 2}, 0, 1, 3, 2)),
            "0@0 1-2@0*0.2,1-2*0.4 m=3 remat=never");
  EXPECT_EQ(to_text(around_one_owner(estimator, {0, 1}, 0, 0, 3, 6)), "@0-1 m=6 remat=never");
}

TEST(AroundOneOwner, SharesAJobOfMillisecondsInTheSameWay) {
  const auto graph = chain({{0.0015, 0.0035, 4, 4}, {0.00025, 0.00075, 400, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}, {1, 1, 10}});
  const Estimator estimator(graph, cluster, 40);
  EXPECT_EQ(to_text(around_one_owner(estimator, {0, 1, 2}, 1, 0, 1, 10)),
            "0@0*0.4,1*0.2,2*0.4 1@1 m=10 remat=never");
}

TEST(AroundOneOwner, TheOwnerGetsFewerOfTheOtherExamples) {
  // Of 40 x 6 seconds each of 3 ranks takes 80; the owner's 40 x 1 are the last layer's.
  const auto graph = chain({{1.5, 3.5, 4, 4}, {0.25, 0.75, 400, 4}});
  const auto cluster = hosts({{1, 1, 10}, {1, 1, 10}, {1, 1, 10}});
  const Estimator estimator(graph, cluster, 40, {}, {1, 0, 0});
  const Shape shape = around_one_owner(estimator, {0, 1, 2}, 1, 0, 1, 10);
  EXPECT_EQ(to_text(shape), "0@0*0.4,1*0.2,2*0.4 1@1 m=10 remat=never");
}

}  // namespace
}  // namespace entrain::planner
