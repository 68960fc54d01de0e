// What a trial of a job that trains costs, and when it does not pay.
#include "entrain/tuner/online/trial_price.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/strategy/shape_text.h"
#include "entrain/tuner/result.h"

namespace entrain::tuner {
namespace {

using dataset::Trial;
using strategy::parse_shape;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Four layers of 10 ms forward and 20 ms backward per example, and of 125 MB each: a second on 1 Gbit/s.
dataset::Domain tower(const std::string& cluster = "lab:4x1gbit") {
  dataset::Domain d;
  d.graph.batch_size = 4;
  for (int l = 0; l < 4; ++l) {
    graph::Variable v;
    v.name = fmt::format("w{}", l);
    v.shape = {125'000'000 / 4};
    v.ready_order = 3 - l;
    d.graph.variables.push_back(v);
    d.graph.layers.push_back({.name = "layer",
                              .variables = {l},
                              .times = {{1, 0.01, 0.02}, {4, 0.04, 0.08}},
                              .output_bytes = 1000,
                              .kept_bytes = 1000});
  }
  d.cluster = cluster::parse(cluster);
  d.settings.batch_size = 4;
  d.settings.compute = "replay";
  return d;
}

strategy::Shape shape(const std::string& text) { return parse_shape(text, 4); }

Trial measured(const std::string& text, double seconds) {
  Trial trial;
  trial.strategy.shape = shape(text);
  trial.seconds = {seconds};
  return trial;
}

class Price : public ::testing::Test {
 protected:
  TrialPrice price(int optimizer_slots = 0) const {
    ShapeSearchOptions options = shape_options(domain, 0, false);
    options.pricer.optimizer_slots = optimizer_slots;
    return TrialPrice(domain, options, 4);
  }
  std::string objection(const std::string& text, const std::vector<Trial>& trials, int64_t steps_left,
                        const std::string& now = "@0 m=4") const {
    return price().objection(measured(text, 0).strategy, trials, {shape(now), steps_left});
  }
  dataset::Domain domain = tower();
};

TEST_F(Price, AMoveTakesAsLongAsTheBusiestLink) {
  const TrialPrice without = price();
  EXPECT_DOUBLE_EQ(without.move_s(shape("@0"), shape("@0 m=2")), 0);
  EXPECT_DOUBLE_EQ(without.move_s(shape("@0"), shape("@1")), 4);
  EXPECT_DOUBLE_EQ(without.move_s(shape("@0-3"), shape("@1")), 0);
  EXPECT_DOUBLE_EQ(without.move_s(shape("@0"), shape("0@0 1@1 2@2 3@3 m=4")), 3);  // rank 0 sends three
  EXPECT_DOUBLE_EQ(price(2).move_s(shape("@0"), shape("@1")), 12);  // and what the optimizer remembers
}

TEST_F(Price, BetweenRanksOfOneHostNothingCrossesALink) {
  domain = tower("lab:2x1gbit/ranks=2");
  EXPECT_DOUBLE_EQ(price().move_s(shape("@0"), shape("@1")), 0);
  EXPECT_DOUBLE_EQ(price().move_s(shape("@0"), shape("@2")), 4);
}

// 16 examples take 1.92 s alone and 0.57 s in a pipeline of four.
TEST_F(Price, TheFirstTrialAlwaysPaysAndAFasterShapeDoesWhileStepsAreLeft) {
  const std::string pipeline = "0@0 1@1 2@2 3@3 m=16 remat=never";
  EXPECT_THAT(objection("@0 m=4 remat=never", {}, 1), IsEmpty());
  const std::vector<Trial> alone = {measured("@0 m=4 remat=never", 1.92)};
  EXPECT_THAT(objection(pipeline, alone, 100), IsEmpty());
  EXPECT_THAT(objection(pipeline, alone, 5), HasSubstr("not run: "));  // 8 s of moves, and 1.4 s gained
}

TEST_F(Price, ASlowerShapeDoesNotPayAndWhatWasMeasuredIsBelieved) {
  const std::vector<Trial> trials = {measured("@0 m=4 remat=never", 1.92),
                                     measured("0@0 1@1 2@2 3@3 m=16 remat=never", 0.6)};
  EXPECT_THAT(objection("0-1@0 2-3@1 m=16 remat=never", trials, 1'000'000), HasSubstr("not run: 1."));
  EXPECT_THAT(objection("@0 m=4 remat=never", trials, 1'000'000), HasSubstr("not run: 1.9"));
  const std::vector<Trial> fast = {measured("@0 m=4 remat=never", 0.5), measured("@1 m=4 remat=never", 0.51)};
  EXPECT_THAT(objection("@1 m=4 remat=never", fast, 1'000'000), IsEmpty());
}

TEST_F(Price, AStrategyWithoutAShapeIsAllLayersOnAllRanks) {
  const std::vector<Trial> alone = {measured("@0 m=4 remat=never", 1.92)};
  strategy::Strategy whole = measured("@0-3", 0).strategy;
  const std::string in_a_shape = price().objection(whole, alone, {shape("@0"), 100});
  whole.shape.reset();
  EXPECT_EQ(price().objection(whole, alone, {shape("@0"), 100}), in_a_shape);
}

// The bound is the work of 16 examples on four ranks, 0.48 s, and a tenth less.
TEST_F(Price, NothingIsLeftOfAJobThatIsNearTheBoundOrItsEnd) {
  EXPECT_FALSE(price().nothing_left({}, 0));
  EXPECT_FALSE(price().nothing_left({measured("@0", 1.92)}, 100));
  EXPECT_TRUE(price().nothing_left({measured("@0", 1.92)}, 5));
  EXPECT_TRUE(price().nothing_left({measured("@0", 0.43)}, 1'000));
}

}  // namespace
}  // namespace entrain::tuner
