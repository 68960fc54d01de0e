#include "entrain/strategy/rule_settings.h"

#include <gmock/gmock.h>

#include "entrain/base/error.h"

namespace entrain::strategy {
namespace {

Optimizer defaults_of(const std::string& rule) {
  Optimizer settings;
  set_rule(settings, rule);
  return settings;
}

TEST(RuleSettings, ARuleWithoutSettingsIsWhatItsNameIs) {
  EXPECT_EQ(settings_of(Lsgd{}), defaults_of("lsgd"));
  EXPECT_EQ(settings_of(LsgdAsync{}), defaults_of("lsgd-async"));
  EXPECT_EQ(settings_of(Easgd{}), defaults_of("easgd"));
  EXPECT_EQ(settings_of(EasgdAsync{}), defaults_of("easgd-async"));
  EXPECT_EQ(settings_of(Downpour{}), defaults_of("downpour"));
  EXPECT_EQ(settings_of(LocalSgd{}), defaults_of("local-sgd"));
  EXPECT_EQ(settings_of(Bmuf{}), defaults_of("bmuf"));
  EXPECT_EQ(settings_of(Parle{}), defaults_of("parle"));
  EXPECT_EQ(settings_of(AsyncPs{}), defaults_of("async-ps"));
}

TEST(RuleSettings, EverySettingArrives) {
  Optimizer expected = defaults_of("lsgd");
  expected.period = 64;
  expected.pull = 0.3;
  expected.proximal = 0.02;
  expected.groups = "one";
  expected.local_period = 8;
  expected.global_pull = 0.4;
  expected.loss_window = 5;
  expected.choice = "stochastic";
  expected.overlap = false;
  EXPECT_EQ(settings_of(Lsgd{.period = 64,
                             .pull = 0.3,
                             .proximal = 0.02,
                             .groups = "one",
                             .local_period = 8,
                             .global_pull = 0.4,
                             .loss_window = 5,
                             .choice = "stochastic",
                             .overlap = false}),
            expected);
  EXPECT_EQ(settings_of(Easgd{.period = 3, .pull = 0.5}).pull, 0.5);
  EXPECT_EQ(settings_of(EasgdAsync{.period = 3}).period, 3);
  EXPECT_FALSE(settings_of(LocalSgd{.overlap = false}).overlap);
  EXPECT_EQ(settings_of(Bmuf{.block_momentum = 0.5, .block_rate = 0.9}).block_momentum, 0.5);
  EXPECT_EQ(settings_of(Bmuf{.block_rate = 0.9}).block_rate, 0.9);
  EXPECT_EQ(settings_of(Parle{.scope = 7}).scope, 7);
  EXPECT_EQ(settings_of(AsyncPs{.period = 4, .staleness = 2}).staleness, 2);
}

TEST(RuleSettings, TheRuleOfSettingsHasThem) {
  for (const Rule& rule :
       {Rule(Lsgd{.period = 64,
       .pull = 0.3,
       .proximal = 0.02,
       .groups = "2",
       .local_period = 8,
       .global_pull = 0.4,
       .loss_window = 5,
       .choice = "stochastic",
       .overlap = false}),
        Rule(LsgdAsync{.period = 64, .pull = 0.3, .proximal = 0, .local_period = 1}), Rule(Lsgd{}),
        Rule(LsgdAsync{}), Rule(Easgd{.period = 3, .pull = 0.5}), Rule(EasgdAsync{.period = 3, .pull = 0.5}),
        Rule(Downpour{.period = 5}), Rule(LocalSgd{.period = 5, .overlap = false}), Rule(Bmuf{}),
        Rule(Bmuf{.period = 5, .block_momentum = 0, .block_rate = 0.9}), Rule(Parle{.period = 5, .scope = 7}),
        Rule(AsyncPs{}), Rule(AsyncPs{.period = 4, .staleness = 0})}) {
    const Rule again = rule_of(settings_of(rule));
    EXPECT_EQ(again.index(), rule.index());
    EXPECT_EQ(settings_of(again), settings_of(rule)) << settings_of(rule).rule;
  }
  EXPECT_EQ(std::get<Easgd>(rule_of(defaults_of("eamsgd"))).pull, defaults_of("eamsgd").pull);
  EXPECT_FALSE(std::get<Lsgd>(rule_of(defaults_of("lsgd"))).proximal.has_value());
  EXPECT_FALSE(std::get<Lsgd>(rule_of(defaults_of("lsgd"))).local_period.has_value());
  EXPECT_FALSE(std::get<Bmuf>(rule_of(defaults_of("bmuf"))).block_momentum.has_value());
  EXPECT_FALSE(std::get<AsyncPs>(rule_of(defaults_of("async-ps"))).staleness.has_value());
  EXPECT_THROW(rule_of(defaults_of("sgd")), InputError);
  EXPECT_THROW(rule_of(defaults_of("hogwild")), InputError);
}

TEST(RuleSettings, WhatIsNotSetFollowsFromTheRest) {
  const Lsgd rule{.period = 64, .pull = 0.32, .global_pull = 0.64};
  EXPECT_EQ(local_period_of(rule), 16);
  EXPECT_EQ(local_period_of(LsgdAsync{.period = 3}), 1);
  EXPECT_EQ(loss_window_of(rule), 16);
  EXPECT_EQ(loss_window_of(Lsgd{.local_period = 9}), 9);
  EXPECT_DOUBLE_EQ(proximal_of(rule, false), 0.005);
  EXPECT_DOUBLE_EQ(proximal_of(rule, true), 0.02);
  EXPECT_DOUBLE_EQ(global_proximal_of(rule), 0.01);
  EXPECT_EQ(proximal_of(LsgdAsync{.proximal = 0}, true), 0);
}

TEST(RuleSettings, AValueThatIsNotAllowedIsNamed) {
  try {
    settings_of(Lsgd{.period = 0});
    FAIL() << "no error";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("period"));
  }
}

}  // namespace
}  // namespace entrain::strategy
