#include "entrain/base/suggest.h"

#include <gtest/gtest.h>

namespace entrain {
namespace {

TEST(Suggest, FindsTheNameThatWasMeant) {
  const std::vector<std::string> known = {"ps", "allreduce", "partitioned-ps", "byteps", "ddp"};
  EXPECT_EQ(nearest_name("alreduce", known), "allreduce");
  EXPECT_EQ(nearest_name("all-reduce", known), "allreduce");
  EXPECT_EQ(nearest_name("part", known), "partitioned-ps");
  EXPECT_EQ(nearest_name("dpd", known), "ddp");
  EXPECT_EQ(nearest_name("horovod", known), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

// One edit in three letters: inserted, left out, replaced, or two neighbours swapped.
TEST(Suggest, CountsEdits) {
  const std::vector<std::string> known = {"abcdef"};
  for (const char* name : {"abcdef", "abcdefg", "xabcdef", "abdef", "bcdef", "abXdef", "bacdef", "abcdfe",
                           "bacdfe", "abcdefgh", "badcef"}) {
    EXPECT_EQ(nearest_name(name, known), "abcdef") << name;
  }
  for (const char* name : {"badcfe", "cbadef1", "abc123", "fedcba", "a"})
    EXPECT_EQ(nearest_name(name, known), "") << name;
  EXPECT_EQ(nearest_name("ab", known), "abcdef");                  // its beginning
  EXPECT_EQ(nearest_name("abd", {"abcd", "abde", "ab"}), "abde");  // a beginning before an edit
  EXPECT_EQ(nearest_name("abd", {"xyz", "abcd", "adb"}), "abcd");  // the first of equals
  EXPECT_EQ(nearest_name("abcde", {"abXYe", "abcXe"}), "abcXe");   // the nearer one
  EXPECT_EQ(nearest_name("xy", {"ab", "xz"}), "xz");
}

TEST(Suggest, SaysNothingWhereNothingIsNear) {
  EXPECT_EQ(did_you_mean("trian", {"train", "tune"}), "; did you mean train?");
  EXPECT_EQ(did_you_mean("nosuch", {"train", "tune"}), "");
}

}  // namespace
}  // namespace entrain
