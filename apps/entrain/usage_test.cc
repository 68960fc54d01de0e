#include "usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace entrain::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What is said about a command line of a program like ours; empty when it is right.
std::string said(std::vector<std::string> words) {
  CLI::App app("", "entrain");
  app.require_subcommand(1);
  std::string model, file;
  std::vector<std::string> command;
  int steps = 0;
  auto* train = app.add_subcommand("train");
  train->add_option("--model", model)->required();
  train->add_option("--batch-size", steps)->check(positive());
  train->add_option("--test-every", steps)->check(not_negative());
  train->add_option("-n,--steps", steps);
  double rate = 0;
  uint64_t seed = 0;
  int64_t count = 0;
  train->add_option("--lr", rate);
  train->add_option("--seed", seed);
  train->add_option("--count", count)->check(examples());
  auto* data = app.add_subcommand("dataset");
  data->require_subcommand(1);
  auto* stats = data->add_subcommand("stats");
  stats->add_option("file", file)->required();
  stats->add_option("--model", model)->required();
  app.add_subcommand("launch")->add_option("command", command);
  check_values(app);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    return usage_error(app, e);
  }
  return "";
}

TEST(Usage, NamesAnUnknownFlagBeforeAMissingOne) {
  const std::string line = said({"train", "--modle", "x"});
  EXPECT_EQ(line, "unknown flag --modle; did you mean --model? (see entrain train --help)");
  EXPECT_THAT(said({"train", "--modle=x"}), HasSubstr("unknown flag --modle;"));
  EXPECT_THAT(said({"dataset", "stats", "--mdel", "x"}), HasSubstr("--mdel; did you mean --model?"));
  EXPECT_THAT(said({"train", "--model", "x", "--batch", "3"}), HasSubstr("did you mean --batch-size?"));
  EXPECT_THAT(said({"train", "-k", "3"}), HasSubstr("unknown flag -k"));
  EXPECT_THAT(said({"train", "--first", "--second"}), HasSubstr("--first"));
  EXPECT_THAT(said({"--nosuch", "train"}), HasSubstr("unknown flag --nosuch"));
}

TEST(Usage, GuessesOnlyWhatIsNear) {
  EXPECT_THAT(said({"train", "--bandwidth", "3"}), Not(HasSubstr("did you mean")));
}

TEST(Usage, OtherMistakesAreSaidAsTheyAre) {
  EXPECT_THAT(said({"train"}), HasSubstr("--model is required"));
  EXPECT_THAT(said({"train", "--model", "x", "--steps", "many"}), HasSubstr("--steps"));
  EXPECT_THAT(said({"train", "--model", "x", "word"}), HasSubstr("word"));
  EXPECT_EQ(said({"train", "--model", "x", "--steps", "-1"}), "");
  EXPECT_EQ(said({"launch", "--", "./program", "--modle"}), "");
}

TEST(Usage, NamesAnUnknownVerbWithTheOneThatWasMeant) {
  EXPECT_EQ(said({"trian"}), "unknown verb 'trian'; did you mean train? (see entrain --help)");
  EXPECT_EQ(said({"dataset", "stat"}),
            "unknown verb 'stat'; did you mean stats? (see entrain dataset --help)");
  EXPECT_THAT(said({"nosuch", "--model", "x"}), HasSubstr("unknown verb 'nosuch'"));
  EXPECT_THAT(said({"nosuch"}), Not(HasSubstr("did you mean")));
}

TEST(Usage, NumbersAreFiniteAndFitInTheirType) {
  const auto given = [](const std::string& flag, const std::string& value) {
    return said({"train", "--model", "x", flag + "=" + value});
  };
  for (const char* value : {"nan", "inf", "-inf", "1e300", "1e999"}) {
    EXPECT_THAT(given("--lr", value),
                HasSubstr(std::string(value) + " is not allowed; it must be a number from"));
  }
  for (const char* value : {"many", "1x", "1,5"})
    EXPECT_THAT(given("--lr", value), HasSubstr("is not a number"));
  for (const char* value : {"-1", "18446744073709551616", "1.5", "1e3", "x"}) {
    EXPECT_THAT(given("--seed", value),
                HasSubstr("it must be a whole number from 0 to 18446744073709551615"));
  }
  for (const char* value : {"9223372036854775808", "-9223372036854775809", "0.5", "nan"}) {
    EXPECT_THAT(given("--steps", value), HasSubstr("it must be a whole number from -9223372036854775808"));
  }
  EXPECT_THAT(given("--count", "9223372036854775807"), HasSubstr("it must be at most 16777216"));
  EXPECT_EQ(given("--seed", "18446744073709551615"), "");
  EXPECT_EQ(given("--lr", "1e-9"), "");
}

TEST(Usage, AnEmptyValueIsNoValue) {
  EXPECT_THAT(said({"train", "--model", ""}), HasSubstr("--model: it is empty"));
  EXPECT_THAT(said({"train", "--model", "x", "--lr", ""}), HasSubstr("--lr: it is empty"));
  EXPECT_EQ(said({"launch", "--", "./program", ""}), "");
}

TEST(Usage, ANumberOutOfRangeIsAnsweredInOneShortLine) {
  const std::string zero = said({"train", "--model", "x", "--batch-size", "0"});
  EXPECT_EQ(zero, "--batch-size: 0 is not allowed; it must be above 0 (see entrain train --help)");
  EXPECT_THAT(said({"train", "--model", "x", "--test-every", "-3"}),
              HasSubstr("-3 is not allowed; it must be 0 or"));
  EXPECT_THAT(said({"train", "--model", "x", "--batch-size", "many"}), HasSubstr("'many' is not a number"));
  EXPECT_THAT(said({"train", "--model", "x", "--batch-size", "nan"}), HasSubstr("not a number"));
  EXPECT_EQ(said({"train", "--model", "x", "--test-every", "0"}), "");
}

TEST(Usage, HelpForAnUnknownVerbIsAnError) {
  CLI::App app("", "entrain");
  app.add_subcommand("train");
  app.add_subcommand("dataset")->add_subcommand("stats");
  EXPECT_EQ(help_error(app, {"help"}), "");
  EXPECT_EQ(help_error(app, {"help", "dataset", "stats"}), "");
  EXPECT_EQ(help_error(app, {"help", "train", "--steps"}), "");
  EXPECT_EQ(help_error(app, {"help", "trian"}),
            "unknown verb 'trian'; did you mean train? (see entrain --help)");
  EXPECT_EQ(help_error(app, {"help", "dataset", "stat"}),
            "unknown verb 'stat'; did you mean stats? (see entrain dataset --help)");
  EXPECT_EQ(help_error(app, {"trian"}), "");
}

TEST(Usage, HelpIsAVerbToo) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(without_help_verb({}), Words{"--help"});
  EXPECT_EQ(without_help_verb({"help"}), Words{"--help"});
  EXPECT_EQ(without_help_verb({"help", "dataset", "stats"}), (Words{"dataset", "stats", "--help"}));
  EXPECT_EQ(without_help_verb({"train", "help"}), (Words{"train", "help"}));
}

}  // namespace
TEST(Usage, FieldsThatTheLibraryNamesAreShownAsFlagsOfTheVerb) {
  CLI::App app;
  CLI::App* verb = app.add_subcommand("train");
  int number = 0;
  verb->add_option("--batch-size,-b", number);
  verb->add_option("--lr-schedule", number);
  app.parse(std::vector<std::string>{"train"});
  EXPECT_EQ(fields_as_flags(app, "`batch_size` 3 of `rate_schedule`: `classes` is missing"),
            "--batch-size 3 of --lr-schedule: `classes` is missing");
  EXPECT_EQ(fields_as_flags(app, "no field"), "no field");
  EXPECT_EQ(fields_as_flags(app, "an open ` stays"), "an open ` stays");
  EXPECT_EQ(fields_as_flags(app, "`batch_size`"), "--batch-size");
}

}  // namespace entrain::app
