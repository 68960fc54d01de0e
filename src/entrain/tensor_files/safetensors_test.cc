#include "entrain/tensor_files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entrain/base/error.h"
#include "entrain/base/files.h"

namespace entrain::tensor_files {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SafetensorsTest : public testing::Test {
 protected:
  ~SafetensorsTest() override { fs::remove(path_); }

  void write_raw(const std::string& header, const std::string& data, std::optional<uint64_t> length = {}) {
    const uint64_t n = length.value_or(header.size());
    write_file_atomically(path_, std::string(reinterpret_cast<const char*>(&n), 8) + header + data);
  }
  void expect_refusal(const std::string& message) {
    try {
      read_safetensors(path_);
      ADD_FAILURE() << "accepted, expected: " << message;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), HasSubstr(message));
      EXPECT_THAT(e.what(), HasSubstr(path_.string()));
    }
  }

  fs::path path_ = fs::temp_directory_path() / fmt::format("entrain-{}.safetensors", ::getpid());
};

TEST_F(SafetensorsTest, RoundTripsEveryTypeAndShape) {
  TensorFile file;
  file.metadata = {{"a", "1"}, {"quote", "\"\n\xc3\xa4"}};
  for (const auto type : {torch::kBool, torch::kByte, torch::kChar, torch::kShort, torch::kInt, torch::kLong,
                          torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble}) {
    file.tensors.emplace_back(c10::toString(type), torch::randint(0, 2, {3, 5}).to(type));
  }
  file.tensors.emplace_back("scalar", torch::tensor(0.1, torch::kDouble));
  file.tensors.emplace_back("empty", torch::zeros({0, 4}));
  file.tensors.emplace_back("transposed", torch::randn({3, 2}).t());
  file.tensors.emplace_back("large", torch::randn({700, 1000}));  // several pieces
  write_safetensors(path_, file);
  const TensorFile read = read_safetensors(path_);
  EXPECT_TRUE(read.checked);
  EXPECT_EQ(read.metadata, file.metadata);
  EXPECT_EQ(read.tensors.size(), file.tensors.size());
  const std::map<std::string, torch::Tensor> by_name(read.tensors.begin(), read.tensors.end());
  for (const auto& [name, tensor] : file.tensors) {
    EXPECT_EQ(by_name.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(torch::equal(by_name.at(name), tensor)) << name;
  }
}

TEST_F(SafetensorsTest, ReadsFilesOfOthersWithoutChecksums) {
  write_raw(R"({"x":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}  )", std::string("\1\0\2\0", 4));
  const TensorFile file = read_safetensors(path_);
  EXPECT_FALSE(file.checked);
  EXPECT_TRUE(torch::equal(file.tensors.at(0).second, torch::tensor({1, 2}, torch::kShort)));
}

TEST_F(SafetensorsTest, RefusesHostileFiles) {
  expect_refusal("cannot read");  // not there
  write_file_atomically(path_, "1234567");
  expect_refusal("it has 7 bytes");
  write_raw("{}", "", UINT64_MAX);
  expect_refusal("header length 18446744073709551615 exceeds the limit");
  write_raw("{}", "", 3);
  expect_refusal("header length 3 exceeds the file's size");
  write_raw("[]", "");
  expect_refusal("not a JSON object");
  write_raw("{\"a\":", "");
  expect_refusal("not JSON");
  write_raw("{\"a\":" + std::string(1'000'000, '['), "");
  expect_refusal("nested too deeply");
  write_raw("{}", "x");
  expect_refusal("its tensors take 0 bytes, but it has 1");
  write_raw(R"({"__metadata__":{"k":1}})", "");
  expect_refusal("__metadata__.k is not a string");
}

TEST_F(SafetensorsTest, RefusesHostileTensors) {
  const auto refuse = [&](const std::string& entry, const std::string& message) {
    write_raw("{\"x\":" + entry + "}", "12345678");
    expect_refusal(message);
  };
  refuse("3", "x is not an object");
  refuse(R"({"dtype":"F32","shape":[2]})", "x.data_offsets is missing");
  refuse(R"({"dtype":"F33","shape":[2],"data_offsets":[0,8]})", "x.dtype is \"F33\"");
  refuse(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})", "x.shape is not a list");
  refuse(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", "x.shape is -2, not a count");
  refuse(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})", "x.shape is 2.0, not a count");
  refuse(R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]})", "too large");
  // 2^32 * 2^32 * 4 wraps to 0 in 64 bits.
  refuse(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})", "too large");
  refuse(R"({"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]})", "too large");
  refuse(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", "spans 8 bytes, but type and shape need 12");
  refuse(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})", "not [begin, end]");
  refuse(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "outside of the 8 bytes");
  refuse(R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})", "outside of the 8 bytes");
  refuse(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", "begins at 4 where 0 was expected");
  refuse(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", "take 4 bytes, but it has 8");
  refuse(
      R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"U8","shape":[2],"data_offsets":[6,8]})",
      "y.data_offsets begins at 6 where 8 was expected");
}

TEST_F(SafetensorsTest, DoesNotWaitForAPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  expect_refusal("not a regular file");
}

TEST_F(SafetensorsTest, RefusesToWriteWhatItCannotRead) {
  const auto refuse = [&](const TensorFile& file) {
    EXPECT_THROW(write_safetensors(path_, file), InputError);
    EXPECT_FALSE(fs::exists(path_));
  };
  refuse({{}, {{"undefined", {}}}});
  refuse({{}, {{"complex", torch::zeros(2, torch::kComplexFloat)}}});
  refuse({{}, {{"sparse", torch::eye(2).to_sparse()}}});
  refuse({{}, {{"twice", torch::zeros(1)}, {"twice", torch::zeros(1)}}});
  refuse({{{"latin", "\xe4"}}, {}});
}

}  // namespace
}  // namespace entrain::tensor_files
