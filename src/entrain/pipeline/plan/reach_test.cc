#include "entrain/pipeline/plan/reach.h"

#include <gtest/gtest.h>

#include <set>

namespace entrain::pipeline {
namespace {

// NAME:DEPTH,WIDTH has DEPTH layers of WIDTH bytes of parameters; nothing else takes memory. With a gradient
// each layer takes 2 WIDTH.
class Towers {
 public:
  Member operator()(const std::string& model) {
    EXPECT_TRUE(asked.insert(model).second) << model << " is asked for twice";
    const auto colon = model.find(':'), comma = model.find(',');
    const int depth = std::stoi(model.substr(colon + 1, comma - colon - 1));
    const int width = std::stoi(model.substr(comma + 1));
    Member member;
    for (int i = 0; i < depth; ++i) {
      member.layers.layers.push_back(
          {.name = "layer", .forward_s = 1, .backward_s = 1, .parameter_bytes = width});
    }
    member.parameters = int64_t{depth} * width;
    return member;
  }
  std::set<std::string> asked;
};

ReachRequest towers_in(int64_t memory_bytes) {
  ReachRequest request;
  request.family = {"tower", {10, 30}, 1, 64};
  request.devices = {1, 2};
  request.memory_bytes = memory_bytes;
  return request;
}

std::vector<Reached> reach_of(const ReachRequest& request, Towers& towers) {
  return reach(request, [&](const std::string& model) { return towers(model); });
}

// 100 bytes hold 5 layers of 10, or 1 of 30; two devices twice as many.
TEST(Reach, IsTheDeepestModelOfTheWidthThatHoldsMost) {
  Towers towers;
  const auto reached = reach_of(towers_in(100), towers);
  ASSERT_EQ(reached.size(), 3u);
  EXPECT_TRUE(reached[0].naive);
  EXPECT_EQ(reached[0].model, "tower:5,10");
  EXPECT_EQ(reached[1].model, "tower:5,10");
  EXPECT_EQ(reached[1].parameters, 50);
  EXPECT_EQ(reached[1].peak_bytes, 100);
  EXPECT_FALSE(reached[2].naive);
  EXPECT_EQ(reached[2].devices, 2);
  EXPECT_EQ(reached[2].model, "tower:10,10");
}

TEST(Reach, WidthsThatFitAlikeTakeTheOneWithMoreParameters) {
  Towers towers;
  ReachRequest request = towers_in(119);  // 5 layers of 10 (50 parameters), 1 of 30
  request.family.widths = {10, 55};       // 1 layer of 55
  EXPECT_EQ(reach_of(request, towers)[1].model, "tower:1,55");
}

TEST(Reach, GoesToTheMostDepthInWholeSteps) {
  Towers towers;
  ReachRequest request = towers_in(1'000'000);
  request.family = {"tower", {10}, 3, 20};
  request.devices = {1};
  EXPECT_EQ(reach_of(request, towers)[1].model, "tower:18,10");
}

TEST(Reach, AModelWithFewerLayersThanDevicesMakesTheSearchGoDeeper) {
  Towers towers;
  ReachRequest request = towers_in(40);
  request.devices = {4};
  request.family.widths = {20};
  EXPECT_EQ(reach_of(request, towers)[1].model, "tower:4,20");
}

TEST(Reach, NamesNoModelWhereNoneFits) {
  Towers towers;
  for (const Reached& reached : reach_of(towers_in(19), towers)) {
    EXPECT_EQ(reached.model, "");
    EXPECT_EQ(reached.parameters, 0);
  }
}

TEST(Reach, LooksOnlyAtTheSizesThatAreAskedFor) {
  Towers towers;
  ReachRequest request = towers_in(100);
  request.sizes = {"2,10", "4,10", "6,10"};
  EXPECT_EQ(reach_of(request, towers)[1].model, "tower:4,10");
  EXPECT_EQ(towers.asked, (std::set<std::string>{"tower:2,10", "tower:4,10", "tower:6,10"}));
}

// Two micro-batches of one example, recomputed, keep less than one of both.
TEST(Reach, APipelineRecomputesWhatTheNaiveRunKeeps) {
  ReachRequest request = towers_in(0);
  request.sizes = {"1,10"};
  request.devices = {1};
  request.examples = 2;
  const auto member_of = [](const std::string&) {
    Member member;
    member.layers.layers = {{.name = "layer", .parameter_bytes = 10, .internal_bytes = 100}};
    member.parameters = 10;
    return member;
  };
  request.memory_bytes = 130;  // 20 and one example's 100
  const auto reached = reach(request, member_of);
  EXPECT_EQ(reached[0].model, "");
  EXPECT_EQ(reached[1].model, "tower:1,10");
}

TEST(Reach, CountsTheNumbersThatTheOptimizerHolds) {
  Towers towers;
  ReachRequest request = towers_in(100);
  request.family.widths = {10};
  request.optimizer_slots = 2;  // 4 x 10 per layer
  EXPECT_EQ(reach_of(request, towers)[1].model, "tower:2,10");
}

}  // namespace
}  // namespace entrain::pipeline
