#include "entrain/dataset/gzip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "entrain/base/error.h"

namespace entrain::dataset {
namespace {

std::string noise(size_t size) {
  std::mt19937 random(1);
  std::string text(size, 0);
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string error_of(const std::string& bytes) {
  try {
    gunzip(bytes, "x.gz");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Gzip, GivesBackEveryText) {
  for (const size_t size : {0, 1, 65535, 65536, 65537, 300'000}) {
    const std::string text = noise(size);
    EXPECT_EQ(gunzip(gzip(text), "x.gz"), text) << size;
  }
  const std::string zeros(5'000'000, '0');
  EXPECT_EQ(gunzip(gzip(zeros), "x.gz"), zeros);
}

TEST(Gzip, ReadsFilesPutTogether) { EXPECT_EQ(gunzip(gzip("one\n") + gzip("two\n"), "x.gz"), "one\ntwo\n"); }

TEST(Gzip, RefusesWhatIsCutOffOrDamaged) {
  const std::string whole = gzip(noise(200'000));
  for (const size_t size : {size_t{0}, size_t{5}, size_t{1000}, whole.size() - 1}) {
    EXPECT_THAT(error_of(whole.substr(0, size)),
                ::testing::HasSubstr("x.gz: the compressed data ends early"));
  }
  EXPECT_THAT(error_of("plain text"), ::testing::HasSubstr("x.gz: not readable as gzip"));
  std::string damaged = whole;
  damaged[damaged.size() / 2] ^= 0x55;
  EXPECT_THAT(error_of(damaged), ::testing::HasSubstr("x.gz: not readable as gzip"));
}

}  // namespace
}  // namespace entrain::dataset
