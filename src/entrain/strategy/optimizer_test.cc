#include "entrain/strategy/optimizer.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

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
  EXPECT_EQ(refusal([](Optimizer& o) { o.staleness = 2; }),
            "optimizer: staleness is 2 and the rule lsgd, allowed with async-ps");
  EXPECT_EQ(refusal([](Optimizer& o) {
              o.rule = "async-ps";
              o.staleness = -2;
            }),
            "optimizer: staleness is -2, allowed: 0 or more, or -1 (no bound)");
  EXPECT_NE(refusal([](Optimizer& o) { o.rule = std::string("easdg"); }).find("allowed: sgd, lsgd"),
            std::string::npos);
  EXPECT_NE(refusal([](Optimizer& o) { o.groups = std::string("0"); }).find("groups is '0'"),
            std::string::npos);
  EXPECT_EQ(refusal([](Optimizer& o) { o.rate_schedule = "cosinus"; }),
            "optimizer: rate schedule is 'cosinus', allowed: constant, linear, cosine, steps");
  for (const double warmup : {-0.1, 1.0, double{NAN}}) {
    Optimizer optimizer;
    optimizer.warmup = warmup;
    EXPECT_THROW(validate(optimizer), InputError) << warmup;
  }
  EXPECT_EQ(refusal([](Optimizer& o) { o.warmup = 1; }),
            "optimizer: warm-up is 1, allowed: 0 to less than 1 (a share of the job)");
  EXPECT_EQ(refusal([](Optimizer& o) { o.clip_norm = -1; }),
            "optimizer: clip norm is -1, allowed: 0 (off) or more");
  EXPECT_EQ(refusal([](Optimizer& o) { o.clip_norm = NAN; }),
            "optimizer: clip norm is nan, allowed: 0 (off) or more");
}

TEST(Optimizer, WhatIsAllowedIsAllowedUpToItsLimits) {
  EXPECT_EQ(refusal([](Optimizer& o) { o.period = 1; }), "accepted");
  EXPECT_EQ(refusal([](Optimizer& o) { o.local_period = 16; }), "accepted");
  EXPECT_EQ(refusal([](Optimizer& o) { o.local_period = -1; }),
            "optimizer: local period is -1, allowed: 1 to period");
  EXPECT_EQ(refusal([](Optimizer& o) { o.loss_window = 1; }), "accepted");
  EXPECT_EQ(refusal([](Optimizer& o) { o.loss_window = -1; }),
            "optimizer: loss window is -1, allowed: 1 or more");
  EXPECT_EQ(refusal([](Optimizer& o) { o.weight_decay = 1e-9; }), "accepted");
  EXPECT_EQ(refusal([](Optimizer& o) { o.weight_decay = -1e-9; }),
            "optimizer: weight decay is -1e-09, allowed: 0 or more");
  EXPECT_EQ(refusal([](Optimizer& o) { o.learning_rate = 0; }),
            "optimizer: learning rate is 0, allowed: more than 0 and less than inf");
  EXPECT_EQ(refusal([](Optimizer& o) { o.learning_rate = INFINITY; }),
            "optimizer: learning rate is inf, allowed: more than 0 and less than inf");
  EXPECT_EQ(refusal([](Optimizer& o) { o.learning_rate = 1e9; }), "accepted");
  EXPECT_EQ(refusal([](Optimizer& o) { o.pull = 0; }),
            "optimizer: pull strength is 0, allowed: more than 0 and less than 1");
  EXPECT_EQ(refusal([](Optimizer& o) { o.global_pull = 1.5; }),
            "optimizer: global pull strength is 1.5, allowed: more than 0 and less than 1");
  EXPECT_EQ(refusal([](Optimizer& o) { o.block_rate = 0; }),
            "optimizer: block rate is 0, allowed: more than 0 and less than inf");
  EXPECT_EQ(refusal([](Optimizer& o) { o.scope = -1; }),
            "optimizer: scope is -1, allowed: more than 0 and less than inf");
  EXPECT_EQ(refusal([](Optimizer& o) { o.scope = 1.5, o.block_rate = 1.5; }), "accepted");
  EXPECT_EQ(refusal([](Optimizer& o) { o.threads = 0; }), "optimizer: threads is 0, allowed: 1 or more");
  EXPECT_EQ(refusal([](Optimizer& o) { o.threads = 1; }), "accepted");
  EXPECT_EQ(refusal([](Optimizer& o) { o.proximal = o.block_momentum = 0; }), "accepted");
  EXPECT_EQ(refusal([](Optimizer& o) { o.proximal = o.block_momentum = 0.999; }), "accepted");
  for (const double value : {1.0, -0.5, double{NAN}}) {
    Optimizer proximal, momentum;
    proximal.proximal = momentum.block_momentum = value;
    EXPECT_THROW(validate(proximal), InputError) << value;
    EXPECT_THROW(validate(momentum), InputError) << value;
  }
  for (const int64_t staleness : {-1, 0, 1}) {
    Optimizer server;
    server.rule = "async-ps";
    server.staleness = staleness;
    EXPECT_NO_THROW(validate(server)) << staleness;
  }
  for (const char* groups : {"hosts", "one", "1", "12"}) {
    Optimizer optimizer;
    optimizer.groups = groups;
    EXPECT_NO_THROW(validate(optimizer)) << groups;
  }
  for (const char* groups : {"", "0", "-1", "2x", "two", "1.5"}) {
    Optimizer optimizer;
    optimizer.groups = groups;
    EXPECT_THROW(validate(optimizer), InputError) << groups;
  }
}

TEST(Optimizer, WorkersMayHaveRatesOfTheirOwn) {
  const auto rates = [](const char* variant) {
    Optimizer o;
    o.learning_rate = 0.8;
    o.rate_variant = variant;
    std::vector<double> result;
    for (int index = 0; index < 5; ++index) result.push_back(o.rate_of(index, 5));
    return result;
  };
  using ::testing::DoubleEq;
  using ::testing::ElementsAre;
  EXPECT_THAT(rates("same"), ElementsAre(0.8, 0.8, 0.8, 0.8, 0.8));
  EXPECT_THAT(rates("linear"),
              ElementsAre(DoubleEq(0.16), DoubleEq(0.32), DoubleEq(0.48), DoubleEq(0.64), DoubleEq(0.8)));
  EXPECT_THAT(rates("powers"), ElementsAre(0.8, 0.4, 0.2, 0.1, 0.8));
}

TEST(Optimizer, NamesOfRulesAndOfSteps) {
  Optimizer o;
  for (const char* base : {"momentum", "nesterov", "adam"}) {
    o.rule = "easgd";
    set_rule(o, base);
    EXPECT_EQ(o.rule, "sgd");
    EXPECT_EQ(o.base, base);
    EXPECT_FALSE(o.apart());
  }
  set_rule(o, "easgd");
  EXPECT_EQ(o.base, "adam") << "a rule leaves the step as it is";
  set_rule(o, "eamsgd");
  EXPECT_EQ(o.rule, "eamsgd");
  EXPECT_EQ(o.base, "nesterov");
  EXPECT_THROW(set_rule(o, "rmsprop"), InputError);
  const std::vector<std::string> asynchronous = {"lsgd-async", "easgd-async", "downpour", "async-ps"};
  for (const std::string& rule : rule_names()) {
    o.rule = rule;
    EXPECT_EQ(o.asynchronous(), std::count(asynchronous.begin(), asynchronous.end(), rule) == 1) << rule;
  }
}

// The schedule's factor at the shares 0, 1/4, 1/2, 3/4 and 1 of the job.
std::vector<double> factors(const std::string& schedule, double warmup = 0) {
  Optimizer optimizer;
  optimizer.rate_schedule = schedule;
  optimizer.warmup = warmup;
  std::vector<double> result;
  for (const double progress : {0.0, 0.25, 0.5, 0.75, 1.0}) result.push_back(optimizer.rate_factor(progress));
  return result;
}

TEST(Optimizer, TheRateFollowsItsSchedule) {
  using ::testing::DoubleNear;
  using ::testing::ElementsAre;
  const auto about = [](double value) { return DoubleNear(value, 1e-12); };
  EXPECT_THAT(factors("constant"), ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(factors("linear"), ElementsAre(1, 0.75, 0.5, 0.25, 0));
  const double high = (1 + std::sqrt(0.5)) / 2, low = (1 - std::sqrt(0.5)) / 2;
  EXPECT_THAT(factors("cosine"), ElementsAre(about(1), about(high), about(0.5), about(low), about(0)));
  EXPECT_THAT(factors("steps"), ElementsAre(1, 1, 0.1, 0.01, 0.01));
}

TEST(Optimizer, WarmUpRisesToTheScheduleAndThenLeavesIt) {
  using ::testing::ElementsAre;
  EXPECT_THAT(factors("constant", 0.5), ElementsAre(0, 0.5, 1, 1, 1));
  EXPECT_THAT(factors("linear", 0.5), ElementsAre(0, 0.375, 0.5, 0.25, 0));
}

TEST(Optimizer, AJobThatRunsOverKeepsTheLastRate) {
  Optimizer optimizer;
  optimizer.rate_schedule = "steps";
  EXPECT_EQ(optimizer.rate_factor(1.2), 0.01);
  optimizer.rate_schedule = "cosine";
  EXPECT_NEAR(optimizer.rate_factor(1.2), 0, 1e-12);
}

TEST(Optimizer, IsPartOfTheStrategysFile) {
  Strategy strategy;
  strategy.id = "job";
  strategy.optimizer = Optimizer{};
  strategy.optimizer->rule = "lsgd";
  strategy.optimizer->period = 64;
  strategy.optimizer->overlap = false;
  strategy.optimizer->rate_schedule = "cosine";
  strategy.optimizer->warmup = 0.1;
  strategy.optimizer->clip_norm = 5;
  EXPECT_EQ(from_json(to_json(strategy)), strategy);
  EXPECT_EQ(from_binary(to_binary(strategy)), strategy);
}

TEST(Optimizer, AFileMayNameTheRuleAlone) {
  const auto strategy = from_json(R"({"id": "x", "optimizer": {"rule": "easgd"}})");
  ASSERT_TRUE(strategy.optimizer);
  EXPECT_EQ(strategy.optimizer->period, Optimizer{}.period);
  EXPECT_THROW(from_json(R"({"id": "x", "optimizer": {"rule": "easgd", "period": "0"}})"), InputError);
  const auto server = from_json(R"({"optimizer": {"rule": "async-ps", "staleness": "4"}})");
  EXPECT_EQ(server.optimizer->period, 1);
  EXPECT_EQ(server.optimizer->staleness, 4);
}

TEST(Optimizer, AsyncPsExchangesEveryStepUnlessToldOtherwise) {
  Optimizer optimizer;
  optimizer.period = 64;
  set_rule(optimizer, "async-ps");
  EXPECT_EQ(optimizer.period, 1);
  optimizer.period = 8;
  optimizer.staleness = 2;
  set_rule(optimizer, "async-ps");  // it was that before
  EXPECT_EQ(optimizer.period, 8);
  set_rule(optimizer, "lsgd");
  EXPECT_EQ(optimizer.period, 16);
  EXPECT_NO_THROW(validate(optimizer));
}

}  // namespace
}  // namespace entrain::strategy
