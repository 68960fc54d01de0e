#include "entrain/strategy/parts.h"

#include <gtest/gtest.h>

#include "entrain/base/error.h"

namespace entrain::strategy {
namespace {

std::string refusal(const Strategy& strategy, Parts run) {
  try {
    check_parts(strategy, "distribute()", run);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

std::string ignored(const std::string& part) {
  return "distribute(): the strategy s has a part '" + part +
         "', which would be ignored; allowed: a strategy without it";
}

TEST(Parts, WhatNobodyWouldRunIsRefused) {
  Strategy strategy{.id = "s", .variables = {}, .replicas = {}, .pipeline = {}, .shape = {}, .optimizer = {}};
  for (const Parts run : {Parts::kVariables, Parts::kVariablesAndShape}) {
    EXPECT_EQ(refusal(strategy, run), "accepted");
    Strategy other = strategy;
    other.optimizer = Optimizer{};
    EXPECT_EQ(refusal(other, run), ignored("optimizer"));
    other = strategy;
    other.pipeline = Pipeline{.devices = 2};
    EXPECT_EQ(refusal(other, run), ignored("pipeline"));
    other.pipeline = Pipeline{};  // of one device and one micro-batch: none
    EXPECT_EQ(refusal(other, run), "accepted");
  }
  strategy.shape = data_parallel(4, {0, 1});
  EXPECT_EQ(refusal(strategy, Parts::kVariables), ignored("shape"));
  EXPECT_EQ(refusal(strategy, Parts::kVariablesAndShape), "accepted");
}

}  // namespace
}  // namespace entrain::strategy
