#include "entrain/strategy/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "entrain/base/error.h"

namespace entrain::strategy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// PipeDream's "15-1" on four ranks.
const Shape kThreeOne{
    {{0, 13, {0, 1, 2, 3}, {.1, .3, .3, .3}}, {13, 16, {0}}}, 10, "1f1b", pipeline::Remat::kNever};

std::string error_of(const std::function<void()>& check) {
  try {
    check();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError";
}

std::string error_after(const std::function<void(Shape&)>& change) {
  Shape shape = kThreeOne;
  change(shape);
  return error_of([&] { validate(shape); });
}

TEST(Shape, EqualSharesNeedNotBeWritten) {
  const Cell cell{0, 2, {4, 5}};
  EXPECT_DOUBLE_EQ(cell.share(0), 0.5);
  EXPECT_DOUBLE_EQ(cell.share(1), 0.5);
  EXPECT_DOUBLE_EQ(kThreeOne.cells[0].share(3), 0.3);
}

TEST(Shape, KnowsItsLayersRanksAndHolders) {
  const Shape shape{{{0, 2, {3, 1}}, {2, 3, {0}}}};
  EXPECT_EQ(shape.layers(), 3);
  EXPECT_EQ(Shape{}.layers(), 0);
  EXPECT_EQ(shape.most_replicas(), 2);
  EXPECT_EQ(shape.ranks(), (std::vector<int>{0, 1, 3}));
  EXPECT_TRUE(shape.holds(3));
  EXPECT_FALSE(shape.holds(2));
  EXPECT_EQ(shape.holders_of(1), (std::vector<int>{1, 3}));
  EXPECT_EQ(shape.holders_of(2), (std::vector<int>{0}));
}

TEST(Shape, HasAMicroBatchPerReplicaUnlessItSaysHowMany) {
  EXPECT_EQ(kThreeOne.micro_batches_or_default(), 10);
  EXPECT_EQ(data_parallel(16, {0, 1, 2}).micro_batches_or_default(), 3);
}

TEST(Shape, APipelineBecomesAReplicaPerKRanksWithMicroBatchesForEach) {
  const Pipeline pipeline{
      .devices = 2, .micro_batches = 4, .schedule = "gpipe", .remat = pipeline::Remat::kAlways};
  EXPECT_EQ(shape_of(pipeline, {5, 3}, {0, 1, 2, 3}),
            (Shape{{{0, 5, {0, 2}}, {5, 8, {1, 3}}}, 8, "gpipe", pipeline::Remat::kAlways}));
}

TEST(Shape, AnInterleavedPipelineDealsItsCellsOut) {
  const Pipeline pipeline{.devices = 2, .micro_batches = 2, .schedule = "interleaved", .chunks = 2};
  const Shape shape = shape_of(pipeline, {1, 1, 1, 1}, {4, 6});
  ASSERT_EQ(shape.cells.size(), 4U);
  EXPECT_EQ(shape.cells[2].ranks, (std::vector<int>{4}));
  EXPECT_EQ(shape.cells[3].ranks, (std::vector<int>{6}));
  EXPECT_EQ(shape.cells[3].begin, 3);
}

TEST(Shape, APipelineNeedsAMultipleOfItsDevices) {
  EXPECT_THAT(error_of([] {
                shape_of({.devices = 3}, {1, 1, 1}, {0, 1, 2, 3});
              }),
              AllOf(HasSubstr("`pipeline` 3"), HasSubstr("4 ranks")));
}

TEST(Shape, AcceptsWhatCanRun) {
  EXPECT_EQ(error_after([](Shape&) {}), "no InputError");
  EXPECT_EQ(error_after([](Shape& s) { s.micro_batches = 4; }), "no InputError");
  EXPECT_EQ(error_after([](Shape& s) { s.micro_batches = 0; }), "no InputError");
  EXPECT_EQ(error_after([](Shape& s) { s.cells[1] = {13, 16, {0, 1}, {1e-9, 1 - 1e-9}}; }), "no InputError");
}

TEST(Shape, RefusesCellsThatDoNotCoverTheLayersInOrder) {
  EXPECT_THAT(error_after([](Shape& s) { s.cells[1].begin = 14; }),
              AllOf(HasSubstr("cell 1 begins at layer 14"), HasSubstr("allowed: 13")));
  EXPECT_THAT(error_after([](Shape& s) { s.cells[0].begin = 1; }), HasSubstr("allowed: 0"));
  EXPECT_THAT(error_after([](Shape& s) { s.cells[1].end = 13; }),
              AllOf(HasSubstr("cell 1 ends before layer 13"), HasSubstr("14 or more")));
  EXPECT_THAT(error_after([](Shape& s) { s.cells.clear(); }), HasSubstr("no cells"));
}

TEST(Shape, RefusesRanksThatCannotBe) {
  EXPECT_THAT(error_after([](Shape& s) { s.cells[1].ranks.clear(); }), HasSubstr("cell 1 has no ranks"));
  EXPECT_THAT(error_after([](Shape& s) { s.cells[1].ranks = {-1}; }),
              HasSubstr("rank -1, allowed: 0 to 4095"));
  EXPECT_THAT(error_after([](Shape& s) { s.cells[0].ranks[2] = 1; }), HasSubstr("lists rank 1 twice"));
}

TEST(Shape, RefusesSharesThatDoNotDivideTheExamples) {
  EXPECT_THAT(error_after([](Shape& s) { s.cells[0].shares.pop_back(); }), HasSubstr("3 shares, allowed: 4"));
  EXPECT_THAT(error_after([](Shape& s) {
                s.cells[0].shares = {.2, .3, .3, .3};
              }),
              AllOf(HasSubstr("cell 0: shares sum to 1.1"), HasSubstr("allowed: 1")));
  EXPECT_THAT(error_after([](Shape& s) { s.cells[0].shares[1] = 0; }), HasSubstr("share of rank 1 is 0"));
  EXPECT_THAT(error_after([](Shape& s) { s.cells[0].shares[1] = NAN; }), HasSubstr("share of rank 1 is nan"));
  EXPECT_THAT(error_after([](Shape& s) {
                s.cells[0].shares = {1.1, -.1, .1, -.1};
              }),
              HasSubstr("share of rank 0 is 1.1, allowed: above 0, at most 1"));
}

TEST(Shape, RefusesMicroBatchesThatLeaveAReplicaWithoutOne) {
  EXPECT_THAT(
      error_after([](Shape& s) { s.micro_batches = 3; }),
      AllOf(HasSubstr("micro_batches is 3"), HasSubstr("4 replicas"), HasSubstr("allowed: 4 or more")));
  EXPECT_THAT(error_after([](Shape& s) { s.micro_batches = 1; }), HasSubstr("allowed: 4 or more"));
  EXPECT_THAT(error_after([](Shape& s) { s.micro_batches = -1; }), HasSubstr("micro_batches is -1"));
}

TEST(Shape, RefusesASchedulesNameThatNobodyKnows) {
  EXPECT_THAT(error_after([](Shape& s) { s.schedule = "zero"; }), HasSubstr("gpipe, 1f1b, interleaved"));
}

TEST(Shape, MustFitModelClusterAndExamples) {
  const auto cluster = cluster::parse("lab:3x1gbit+1x1gbit/server+1x1gbit");
  const Shape good{{{0, 13, {0, 1, 2, 4}}, {13, 16, {0}}}, 8};
  EXPECT_NO_THROW(validate(good, 16, cluster, 8));
  EXPECT_THAT(error_of([&] { validate(good, 15, cluster, 8); }),
              AllOf(HasSubstr("end before layer 16"), HasSubstr("allowed: 15")));
  EXPECT_THAT(error_of([&] { validate(good, 16, cluster, 7); }),
              AllOf(HasSubstr("micro_batches is 8"), HasSubstr("at most 7")));
  Shape other = good;
  other.cells[1].ranks = {3};
  EXPECT_THAT(error_of([&] { validate(other, 16, cluster, 8); }),
              AllOf(HasSubstr("cell 1: rank 3 only serves"), HasSubstr("allowed: 0, 1, 2, 4")));
  other.cells[1].ranks = {5};
  EXPECT_THAT(error_of([&] { validate(other, 16, cluster, 8); }), HasSubstr("rank 5 is not in the cluster"));
}

TEST(Shape, IsDrawnAsHostsByCells) {
  const Shape shape{{{0, 13, {1, 0}, {.25, .75}}, {13, 14, {3}}}, 8};
  EXPECT_EQ(draw(shape, cluster::parse("lab:3x1gbit+1x1gbit/ranks=1")),
            "host        rank  layers  0-12    13\n"
            "198.18.0.1     0          75%\n"
            "198.18.0.2     1          25%\n"
            "198.18.0.3     2          not used\n"
            "198.18.0.4     3                  all\n");
}

}  // namespace
}  // namespace entrain::strategy
