#include "launcher/shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/base/error.h"
#include "entrain/base/process.h"

namespace entrain::app {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> kOdd = {"",
                                       "plain",
                                       "two words",
                                       "it's",
                                       "\"quoted\"",
                                       "$HOME and `id` and $(id)",
                                       "back\\slash",
                                       "semi;colon",
                                       "a&b|c<d>e",
                                       "*?[x]",
                                       "~",
                                       "#not a comment",
                                       "tab\there",
                                       "two\nlines\n",
                                       "'",
                                       "''",
                                       "\\'",
                                       "!history",
                                       "-n",
                                       "ä ß 漢",
                                       "trailing space ",
                                       "ends with \\",
                                       "{a,b}=(c)%d"};

// What `shell` makes of a command of these words, each as a line that ends with a mark.
std::string echoed(const std::string& shell, const std::vector<std::string>& words) {
  std::string command = "printf '%s|\n'";
  for (const auto& word : words) command += ' ' + quote(word);
  ProcessOptions options;
  options.argv = {shell, "-c", command};
  options.output = ProcessOptions::Output::kCapture;
  Process process(options);
  EXPECT_EQ(process.wait(Deadline::after(20.0)), 0);
  return process.captured();
}

TEST(Shell, ReadsAQuotedWordAsItWas) {
  std::string expected;
  for (const auto& word : kOdd) expected += word + "|\n";
  EXPECT_EQ(echoed("sh", kOdd), expected);
  EXPECT_EQ(echoed("bash", kOdd), expected);
}

TEST(Shell, AQuotedWordMayBeQuotedAgain) {
  for (const auto& word : kOdd) {
    EXPECT_EQ(echoed("sh", {quote(word)}), quote(word) + "|\n");
    EXPECT_THAT(split_words(quote(word), "--ssh"), ElementsAre(word));
  }
}

TEST(Shell, PlainWordsStayReadable) { EXPECT_EQ(quote("/usr/bin/x-1.2:y=3"), "/usr/bin/x-1.2:y=3"); }

TEST(Shell, SplitsACommandIntoWords) {
  EXPECT_THAT(split_words("  ssh -p  2222\t-i '/a b/key' -o \"X Y\" a\\ b ''", "--ssh"),
              ElementsAre("ssh", "-p", "2222", "-i", "/a b/key", "-o", "X Y", "a b", ""));
  EXPECT_THROW(split_words("ssh 'open", "--ssh"), InputError);
  EXPECT_THROW(split_words("  ", "--ssh"), InputError);
}

TEST(Shell, KnowsNamesOfVariables) {
  EXPECT_TRUE(is_variable_name("_A1"));
  for (const char* bad : {"", "1A", "A-B", "A B", "A=1"}) EXPECT_FALSE(is_variable_name(bad)) << bad;
}

}  // namespace
}  // namespace entrain::app
