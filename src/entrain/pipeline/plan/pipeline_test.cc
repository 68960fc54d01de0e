#include "entrain/pipeline/plan/pipeline.h"

#include <gtest/gtest.h>

#include "entrain/base/error.h"

namespace entrain::pipeline {
namespace {

std::string refusal(const Pipeline& pipeline) {
  try {
    validate(pipeline);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Pipeline, BadSettingsAreRefusedWithTheAllowedRange) {
  EXPECT_EQ(refusal({}), "accepted");
  EXPECT_EQ(refusal({.devices = 0}), "pipeline: devices is 0, allowed: 1 or more");
  EXPECT_EQ(refusal({.micro_batches = 0}), "pipeline: micro-batches is 0, allowed: 1 or more");
  EXPECT_EQ(refusal({.chunks = 0}), "pipeline: chunks is 0, allowed: 1 or more");
  EXPECT_EQ(refusal({.schedule = "2f2b"}), "pipeline: schedule is '2f2b', allowed: gpipe, 1f1b, interleaved");
  EXPECT_EQ(refusal({.cells = "gpus"}), "pipeline: cells is 'gpus', allowed: auto, threads, ranks");
  EXPECT_EQ(refusal({.schedule = "gpipe", .chunks = 2}),
            "pipeline: chunks is 2, allowed: 1 with the schedule gpipe");
  EXPECT_EQ(refusal({.schedule = "interleaved", .chunks = 2}), "accepted");
  EXPECT_EQ(refusal({.schedule = "interleaved", .chunks = 1}), "accepted");
}

TEST(Pipeline, AnUnknownRematIsRefusedWhereItsNameIsRead) {
  try {
    parse_remat("some");
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "remat is 'some', allowed: never, except-last, always");
  }
  for (const std::string& name : remat_names()) EXPECT_EQ(remat_name(parse_remat(name)), name);
}

TEST(Pipeline, TheBalanceHasANumberPerCell) {
  EXPECT_EQ(refusal({.devices = 2, .schedule = "interleaved", .chunks = 3, .balance = {1, 2, 3, 1, 2, 3}}),
            "accepted");
  EXPECT_EQ(refusal({.devices = 2, .balance = {3}}),
            "pipeline: balance 3 has 1 cells, allowed: 2 (devices x chunks)");
  EXPECT_EQ(refusal({.devices = 2, .balance = {3, 0}}), "pipeline: balance is 0, allowed: 1 or more");
}

TEST(Pipeline, IsThereWithDevicesOrMicroBatches) {
  EXPECT_FALSE(Pipeline{}.there());
  EXPECT_TRUE(Pipeline{.devices = 2}.there());
  EXPECT_TRUE((Pipeline{.devices = 1, .micro_batches = 2}).there());
}

}  // namespace
}  // namespace entrain::pipeline
