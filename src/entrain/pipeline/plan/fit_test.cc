#include "entrain/pipeline/plan/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <iostream>
#include <tuple>

#include "entrain/base/error.h"

namespace entrain::pipeline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kMB = 1'000'000;

// Equal blocks, profiled with 8 examples: 8 ms forward, 16 ms backward, 10 MB of parameters, 8 MB out,
// 80 MB kept inside. A batch of 32 keeps 320 MB a block.
FitRequest blocks(int count, int devices, int64_t memory) {
  FitRequest request;
  for (int i = 0; i < count; ++i) {
    request.layers.push_back({"block" + std::to_string(i), 0.008, 0.016, 10 * kMB, 8 * kMB, 80 * kMB});
  }
  request.profiled_batch = 8;
  request.input_bytes = 8 * kMB;
  request.batch = 32;
  request.devices.assign(devices, Device{1, memory});
  request.overhead_s = 0.0005;
  return request;
}

TEST(Fit, OneDeviceIsEnoughWhereItIs) {
  const auto result = fit(blocks(8, 4, 0));
  const Pipeline& smallest = result.plans.front().choice;
  EXPECT_EQ(smallest.devices, 1);
  EXPECT_EQ(smallest.micro_batches, 1);
  EXPECT_EQ(smallest.remat, Remat::kNever);
  EXPECT_NEAR(result.plans.front().step_s, 8 * 4 * 0.024 + 2 * 0.0005, 1e-9);
}

// More micro-batches shrink the bubble and grow the overhead: the fastest is neither 1 nor 32.
TEST(Fit, TheFastestWeighsBubbleAgainstOverhead) {
  auto request = blocks(8, 4, 0);
  request.overhead_s = 0.005;
  const auto result = fit(request);
  const FitPlan& fastest = result.plans[result.fastest];
  EXPECT_EQ(fastest.choice.devices, 4);
  EXPECT_EQ(fastest.choice.remat, Remat::kNever);
  EXPECT_THAT(fastest.choice.balance, ElementsAre(2, 2, 2, 2));
  EXPECT_GT(fastest.choice.micro_batches, 1);
  EXPECT_LT(fastest.choice.micro_batches, 32);
  for (const auto& plan : result.plans) EXPECT_GE(plan.step_s, fastest.step_s);
}

// 8 blocks hold 80 MB * 2 of weights and gradients, and 8 * 320 MB of activations.
TEST(Fit, LessMemoryTakesMoreMicroBatchesThenRematThenDevices) {
  const auto smallest = [](int64_t memory) { return fit(blocks(8, 4, memory)).plans.front(); };
  EXPECT_EQ(smallest(8 * 340 * kMB).choice.micro_batches, 1);
  // A single micro-batch on one device gains nothing from remat; cut in two, half is inside at a time.
  const auto half = smallest(8 * 180 * kMB + 64 * kMB);
  EXPECT_EQ(half.choice.devices, 1);
  EXPECT_EQ(half.choice.micro_batches, 2);
  const auto little = smallest(100 * kMB);
  EXPECT_GT(little.choice.devices, 1);
  for (const auto& memory : little.memory) EXPECT_LE(memory.total(), 100 * kMB);
}

TEST(Fit, PlansFitAndAreRankedSmallestFirst) {
  const auto request = blocks(12, 4, 300 * kMB);
  const auto result = fit(request);
  ASSERT_FALSE(result.plans.empty());
  for (size_t i = 0; i < result.plans.size(); ++i) {
    const FitPlan& plan = result.plans[i];
    for (const auto& memory : plan.memory) EXPECT_LE(memory.total(), 300 * kMB);
    if (i == 0) continue;
    const FitPlan& before = result.plans[i - 1];
    EXPECT_LE(std::tuple(before.choice.devices, before.choice.micro_batches, before.step_s),
              std::tuple(plan.choice.devices, plan.choice.micro_batches, plan.step_s));
  }
  EXPECT_THAT(describe(result), testing::AllOf(HasSubstr("smallest: "), HasSubstr("fastest: ")));
}

// With 100 MB of weights in block 0, the fastest balance does not fit: the others must give way.
TEST(Fit, MemoryOverridesBalance) {
  auto request = blocks(8, 2, 0);
  request.layers[0].parameter_bytes = 100 * kMB;
  request.schedules = {"1f1b"};
  request.remats = {Remat::kAlways};
  request.micro_batches = {32};
  EXPECT_THAT(fit(request).plans.back().choice.balance, ElementsAre(4, 4));
  request.devices.assign(2, Device{1, 250 * kMB});
  const auto plans = fit(request).plans;
  EXPECT_EQ(plans.front().choice.devices, 2);
  EXPECT_THAT(plans.front().choice.balance, ElementsAre(2, 6));
}

TEST(Fit, DoesNotFitSaysByHowMuch) {
  auto request = blocks(4, 2, 30 * kMB);
  const auto result = fit(request);
  EXPECT_TRUE(result.plans.empty());
  ASSERT_TRUE(result.nearest);
  // Two blocks with gradients are 40 MB; one example keeps 10 MB in each; the input of one or two is 1 MB
  // each.
  const FitPlan& nearest = *result.nearest;
  EXPECT_EQ(nearest.choice.devices, 2);
  EXPECT_EQ(nearest.choice.micro_batches, 32);
  EXPECT_EQ(nearest.choice.schedule, "1f1b");
  EXPECT_EQ(nearest.choice.remat, Remat::kAlways);
  EXPECT_EQ(nearest.shortfall_bytes, 40 * kMB + 2 * kMB + 20 * kMB - 30 * kMB);
  EXPECT_EQ(nearest.shortfall_device, 0);
  EXPECT_THAT(describe(result), HasSubstr("does not fit: by 32"));
  EXPECT_THAT(describe(result),
              HasSubstr("on device 0, even with 2 devices, 32 micro-batches, 1f1b, remat always"));
  // Raised by what is missing, it fits.
  request.devices.assign(2, Device{1, 30 * kMB + nearest.shortfall_bytes});
  EXPECT_FALSE(fit(request).plans.empty());
}

TEST(Fit, OptimizerSlotsCount) {
  auto request = blocks(4, 1, 0);
  const auto parameters = [&] { return fit(request).plans.front().memory[0].parameter_bytes; };
  EXPECT_EQ(parameters(), 80 * kMB);
  request.optimizer_slots = 2;
  EXPECT_EQ(parameters(), 160 * kMB);
}

TEST(Fit, UnevenDevicesGetUnevenCells) {
  auto request = blocks(8, 2, 0);
  request.devices[1].speed = 3;
  const auto result = fit(request);
  EXPECT_THAT(result.plans[result.fastest].choice.balance, ElementsAre(2, 6));
}

TEST(Fit, InterleavedOnRequest) {
  auto request = blocks(8, 2, 0);
  request.schedules = {"gpipe", "interleaved"};
  request.overhead_s = 0;
  request.micro_batches = {4};
  const auto result = fit(request);
  const Pipeline& fastest = result.plans[result.fastest].choice;
  EXPECT_EQ(fastest.schedule, "interleaved");
  EXPECT_THAT(fastest.balance, ElementsAre(2, 2, 2, 2));
}

TEST(Fit, PredictsTheUsersOwnBalance) {
  const auto request = blocks(8, 2, 0);
  const auto plan = predict(request, {2, 4, "gpipe", 1, Remat::kAlways, {6, 2}});
  EXPECT_GT(plan.imbalance_share, 0.3);
  EXPECT_THAT(describe(plan), HasSubstr("2 devices, 4 micro-batches, gpipe, remat always, balance 6,2: "));
  EXPECT_THROW(predict(request, {2, 4, "gpipe", 1, Remat::kAlways, {6, 3}}), InputError);
  EXPECT_THROW(predict(request, {2, 64, "gpipe", 1, Remat::kAlways, {6, 2}}), InputError);
  EXPECT_THROW(predict(request, {3, 4, "gpipe", 1, Remat::kAlways, {6, 1, 1}}), InputError);
}

TEST(Fit, TriesOnlyWhatTheUserFixed) {
  auto request = blocks(8, 4, 0);
  request.pipeline = 3;
  for (const auto& plan : fit(request).plans) EXPECT_EQ(plan.choice.devices, 3);
  request.balance = {4, 3, 1};
  for (const auto& plan : fit(request).plans) EXPECT_THAT(plan.choice.balance, ElementsAre(4, 3, 1));
  request.devices.assign(4, Device{1, kMB});
  EXPECT_THAT(fit(request).nearest->choice.balance, ElementsAre(4, 3, 1));
  request.balance = {4, 3};
  EXPECT_FALSE(fit(request).nearest);  // nothing to try
}

// A value from layer 0 to layer 7 is held by both cells where they are two; so is a tied parameter.
TEST(Fit, WhatCrossesACutIsHeldTwice) {
  auto request = blocks(8, 2, 0);
  const Pipeline one{1, 4, "gpipe", 1, Remat::kAlways, {8}}, two{2, 4, "gpipe", 1, Remat::kAlways, {4, 4}};
  const auto alone = predict(request, one), apart = predict(request, two);
  request.skips = {{0, 7, 16 * kMB}};
  request.ties = {{0, 7, 5 * kMB}};
  const auto alone_with = predict(request, one), apart_with = predict(request, two);
  EXPECT_EQ(alone_with.memory[0].total(), alone.memory[0].total());
  EXPECT_EQ(apart_with.memory[0].total(), apart.memory[0].total());
  EXPECT_EQ(apart_with.memory[1].parameter_bytes, apart.memory[1].parameter_bytes + 2 * 5 * kMB);
  // Of four micro-batches an input each, and of the one recomputed all that is kept.
  EXPECT_EQ(apart_with.memory[1].activation_bytes, apart.memory[1].activation_bytes + (4 + 1) * 16 * kMB);
}

// 9 examples in 4 micro-batches: one has 3 of them.
TEST(Fit, TheLargestMicroBatchCountsForMemory) {
  auto request = blocks(1, 1, 0);
  request.batch = 9;
  const auto plan = predict(request, {1, 4, "gpipe", 1, Remat::kNever, {1}});
  EXPECT_EQ(plan.memory[0].activation_bytes, 4 * 3 * 10 * kMB);
}

// The last two layers' forwards count twice where they are recomputed.
TEST(Fit, BalancesWhatIsRecomputedToo) {
  auto request = blocks(3, 2, 0);
  for (auto& layer : request.layers) layer.forward_s = 0.002, layer.backward_s = 0;
  request.layers[0].forward_s = 0;
  request.layers[0].backward_s = 0.003;
  request.pipeline = 2;
  request.schedules = {"gpipe"};
  request.micro_batches = {4};
  const auto balance = [&](Remat remat) {
    request.remats = {remat};
    return fit(request).plans.at(0).choice.balance;
  };
  EXPECT_THAT(balance(Remat::kNever), ElementsAre(1, 2));
  EXPECT_THAT(balance(Remat::kAlways), ElementsAre(2, 1));
}

TEST(Fit, MemoryOfTheOptimizerMovesLayersToo) {
  auto request = blocks(8, 2, 450 * kMB);
  request.layers[0].parameter_bytes = 100 * kMB;
  request.optimizer_slots = 2;
  request.pipeline = 2;
  request.schedules = {"1f1b"};
  request.remats = {Remat::kAlways};
  request.micro_batches = {32};
  const auto plan = fit(request).plans.at(0);
  EXPECT_THAT(plan.choice.balance, ElementsAre(1, 7));
  for (const auto& memory : plan.memory) EXPECT_LE(memory.total(), 450 * kMB);
}

TEST(Fit, InterleavedThatDoesNotFitSaysByHowMuch) {
  auto request = blocks(8, 2, kMB);
  request.schedules = {"interleaved"};
  const auto result = fit(request);
  EXPECT_TRUE(result.plans.empty());
  ASSERT_TRUE(result.nearest);
  EXPECT_GT(result.nearest->shortfall_bytes, 0);
  EXPECT_EQ(result.nearest->choice.balance.size(), 4U);
}

TEST(Fit, APipelineOfOneDeviceIsOne) {
  auto request = blocks(8, 4, 0);
  request.pipeline = 1;
  for (const auto& plan : fit(request).plans) EXPECT_EQ(plan.choice.devices, 1);
}

TEST(Fit, TriesExceptLastOnlyWhereThereIsAnother) {
  auto request = blocks(2, 1, 0);
  request.remats = {Remat::kExceptLast};
  request.micro_batches = {1, 2};
  const auto result = fit(request);
  EXPECT_FALSE(result.plans.empty());
  for (const auto& plan : result.plans) EXPECT_EQ(plan.choice.micro_batches, 2);
}

TEST(Fit, WhatFitsToTheByteFallsShortNowhere) {
  auto request = blocks(4, 2, 0);
  const Pipeline choice{2, 4, "gpipe", 1, Remat::kAlways, {2, 2}};
  for (size_t k = 0; k < 2; ++k) request.devices[k].memory_bytes = predict(request, choice).memory[k].total();
  EXPECT_EQ(predict(request, choice).shortfall_bytes, 0);
  EXPECT_EQ(predict(request, choice).shortfall_device, -1);
  --request.devices[1].memory_bytes;
  EXPECT_EQ(predict(request, choice).shortfall_bytes, 1);
  EXPECT_EQ(predict(request, choice).shortfall_device, 1);
}

TEST(Fit, RefusesWhatCannotBe) {
  EXPECT_THROW(fit(blocks(0, 1, 0)), InputError);
  EXPECT_THROW(fit(blocks(1, 0, 0)), InputError);
  auto request = blocks(2, 1, 0);
  request.micro_batches = {33};
  EXPECT_THROW(fit(request), InputError);
  request = blocks(2, 1, 0);
  request.schedules = {"zigzag"};
  EXPECT_THROW(fit(request), InputError);
}

// A figure, not a condition: planning should be felt as immediate.
TEST(Fit, TimeOfPlans) {
  for (const auto& [layers, devices, memory] : {std::tuple{130, 8, 700 * kMB}, {130, 8, 200 * kMB}}) {
    auto request = blocks(layers, devices, memory);
    request.batch = 256;
    const std::clock_t begin = std::clock();
    const auto result = fit(request);
    std::cout << layers << " layers, " << devices << " devices: " << result.plans.size() << " plans in "
              << 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC << " ms\n"
              << describe(result);
  }
}

}  // namespace
}  // namespace entrain::pipeline
