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
  train->add_option("--batch-size", steps);
  train->add_option("-n,--steps", steps);
  auto* data = app.add_subcommand("dataset");
  data->require_subcommand(1);
  auto* stats = data->add_subcommand("stats");
  stats->add_option("file", file)->required();
  stats->add_option("--model", model)->required();
  app.add_subcommand("launch")->add_option("command", command);
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

}  // namespace
}  // namespace entrain::app
