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
