#include "entrain/strategy/optimizer.h"

#include <gtest/gtest.h>

#include "entrain/base/error.h"
#include "entrain/strategy/stored.h"

namespace entrain::strategy {
namespace {

std::string refusal(void (*spoil)(Optimizer&)) {
  Optimizer optimizer;
  optimizer.rule = "lsgd";
  spoil(optimizer);
  try {
    validate(optimizer);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Optimizer, EveryRuleHasSensibleDefaults) {
  for (const std::string& rule : rule_names()) {
    Optimizer optimizer;
    optimizer.rule = rule;
    EXPECT_NO_THROW(validate(optimizer)) << rule;
  }
}

TEST(Optimizer, BadSettingsAreRefusedWithTheAllowedRange) {
  EXPECT_EQ(refusal([](Optimizer& o) { o.period = 0; }), "optimizer: period is 0, allowed: 1 or more");
  EXPECT_EQ(refusal([](Optimizer& o) { o.pull = 1; }),
            "optimizer: pull strength is 1, allowed: more than 0 and less than 1");
  EXPECT_EQ(refusal([](Optimizer& o) { o.pull = NAN; }),
            "optimizer: pull strength is nan, allowed: more than 0 and less than 1");
  EXPECT_EQ(refusal([](Optimizer& o) { o.local_period = 17; }),
            "optimizer: local period is 17, allowed: 1 to the (global) period, 16");
  EXPECT_NE(refusal([](Optimizer& o) { o.rule = std::string("easdg"); }).find("allowed: sgd, lsgd"),
            std::string::npos);
  EXPECT_NE(refusal([](Optimizer& o) { o.groups = std::string("0"); }).find("groups is '0'"),
            std::string::npos);
}

TEST(Optimizer, IsPartOfTheStrategysFile) {
  Strategy strategy;
  strategy.id = "job";
  strategy.optimizer = Optimizer{};
  strategy.optimizer->rule = "lsgd";
  strategy.optimizer->period = 64;
  strategy.optimizer->overlap = false;
  EXPECT_EQ(from_json(to_json(strategy)), strategy);
  EXPECT_EQ(from_binary(to_binary(strategy)), strategy);
}

TEST(Optimizer, AFileMayNameTheRuleAlone) {
  const auto strategy = from_json(R"({"id": "x", "optimizer": {"rule": "easgd"}})");
  ASSERT_TRUE(strategy.optimizer);
  EXPECT_EQ(strategy.optimizer->period, Optimizer{}.period);
  EXPECT_THROW(from_json(R"({"id": "x", "optimizer": {"rule": "easgd", "period": "0"}})"), InputError);
}

}  // namespace
}  // namespace entrain::strategy
