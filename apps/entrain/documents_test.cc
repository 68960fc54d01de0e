#include "documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>

namespace entrain::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Documents : public ::testing::Test {
 protected:
  Documents() : app("Trains.", "entrain") {
    auto* train = app.add_subcommand("train", "Trains a model");
    train->add_option("-m,--model", text, "Model of the zoo");
    train->add_flag("--json", flag, "One document");
    train->footer(".dots and 'quotes'\n  entrain train --model x");
    auto* data = app.add_subcommand("dataset", "Data");
    data->add_subcommand("stats", "Counts")->add_option("file", text, "Of records");
    data->add_subcommand("split", "Splits")->add_option("--seed", text, "Of the draw");
    app.add_subcommand("secret", "Hidden")->group("");
  }

  // What bash offers after this line.
  std::string offered(const std::string& line) {
    const std::string script =
        bash_completion(app) + "COMP_WORDS=(" + line +
        ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_entrain\necho \"${COMPREPLY[@]}\"\n";
    FILE* file = std::fopen((::testing::TempDir() + "completion.sh").c_str(), "w");
    std::fputs(script.c_str(), file);
    std::fclose(file);
    FILE* bash = popen(("bash " + ::testing::TempDir() + "completion.sh 2>&1").c_str(), "r");
    std::array<char, 1000> out{};
    const size_t size = std::fread(out.data(), 1, out.size(), bash);
    pclose(bash);
    return {out.data(), size};
  }

  CLI::App app;
  std::string text;
  bool flag = false;
};

TEST_F(Documents, BashIsOfferedVerbsSubcommandsAndFlagsOfThePlaceItIsAt) {
  EXPECT_EQ(offered("entrain ''"), "train dataset --help\n");
  EXPECT_EQ(offered("entrain tr"), "train\n");
  EXPECT_EQ(offered("entrain train --model x --j"), "--json\n");
  EXPECT_EQ(offered("entrain dataset s"), "stats split\n");
  EXPECT_EQ(offered("entrain dataset split --se"), "--seed\n");
  EXPECT_EQ(offered("entrain train file"), "\n");  // then names of files
}

TEST_F(Documents, TheManualPageHasEveryVerbAndFlagThatHelpShows) {
  const std::string page = manual_page(app, "1.2.3");
  EXPECT_THAT(page,
              AllOf(HasSubstr("entrain 1.2.3"), HasSubstr(".SS entrain train\nTrains a model\n"),
                    HasSubstr("\\-\\-model"), HasSubstr("Model of the zoo"), HasSubstr("\\-\\-json\\fR\n"),
                    HasSubstr(".SS entrain dataset split\n"), Not(HasSubstr("secret"))));
}

TEST_F(Documents, NoLineOfTextIsTakenForACommandOfRoff) {
  EXPECT_THAT(manual_page(app, "1"), AllOf(HasSubstr("\n\\&.dots"), Not(HasSubstr("\n.dots"))));
}

}  // namespace
}  // namespace entrain::app
