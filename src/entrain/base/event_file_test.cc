#include "entrain/base/event_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "entrain/base/files.h"
#include "support/temp_dir.h"

namespace entrain {
namespace {

TEST(EventFile, SumsAreThoseOfTheStandard) {  // RFC 3720, appendix B.4
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

// The bytes as TensorFlow's own writer makes them: TensorBoard refuses a record whose sums are off.
TEST(EventFile, HoldsScalarsAsTensorBoardReadsThem) {
  const test::TempDir dir;
  {
    EventFile events(dir.path(), "test");
    events.scalar("loss", 300, 0.5, 1234.5);
  }
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) file = entry.path();
  EXPECT_EQ(file.filename().string().rfind("events.out.tfevents.", 0), 0u);
  const std::string content = read_file(file);
  uint64_t first = 0, second = 0;
  std::memcpy(&first, content.data(), 8);
  ASSERT_LT(first + 16 + 12, content.size());
  EXPECT_NE(content.find("brain.Event:2"), std::string::npos);
  const size_t at = first + 16;
  std::memcpy(&second, content.data() + at, 8);
  EXPECT_EQ(content.size(), at + second + 16);
  const std::string data = content.substr(at + 12, second);
  EXPECT_EQ(data[0], '\x09');  // field 1, eight bytes
  double wall = 0;
  std::memcpy(&wall, data.data() + 1, 8);
  EXPECT_EQ(wall, 1234.5);
  const std::string rest("\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\x00\x00\x00\x3f", 18);
  EXPECT_EQ(data.substr(9), rest);
}

}  // namespace
}  // namespace entrain
