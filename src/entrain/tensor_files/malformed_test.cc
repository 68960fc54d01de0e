// Files of tensors that are wrong, each refused by one line that says how. (safetensors_test.cc has more.)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "entrain/tensor_files/npy.h"
#include "entrain/tensor_files/safetensors.h"
#include "support/malformed.h"
#include "support/temp_dir.h"

namespace entrain::tensor_files {
namespace {

using test::expect_refused;

std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string file = "\x93NUMPY";
  file += version;
  file += '\0';
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  if (version > 1) file += std::string(2, '\0');
  return file + header + data;
}
std::string npy_of(const std::string& descr, const std::string& shape, const std::string& data) {
  return npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }", data);
}

std::string safetensors(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}
std::string tensor(const char* dtype, const char* shape, const char* offsets, const std::string& data) {
  constexpr auto kHeader = R"({{"x":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})";
  return safetensors(fmt::format(kHeader, dtype, shape, offsets), data);
}

class MalformedFile : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& content) const {
    const auto path = folder_.path() / "x";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  test::TempDir folder_;
};

TEST_F(MalformedFile, Npy) {
  std::string axes = "(";
  for (int i = 0; i < 10'000; ++i) axes += "1,";
  expect_refused(
      {{"", "no .npy file"},
       {"junk", "no .npy file"},
       {"\x93NUMPY", "no .npy file"},
       {std::string("\x93NUMPY\1\0\xff\xff{}", 12), "beyond the file's end"},
       {std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12), "beyond the file's end"},
       {npy("", "12345678"), "numbers of kind "},
       {npy("{}", "12345678"), "numbers of kind "},
       {npy_of("|O", "(1,)", "12345678"), "numbers of kind '|O'"},
       {npy_of(">f4", "(2,)", "12345678"), "numbers of kind '>f4'"},
       {npy_of("<c8", "(1,)", "12345678"), "numbers of kind '<c8'"},
       {npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", "12345678"), "columns first"},
       {npy("{'descr': '<f4', 'shape': (2,), }", "12345678"), "columns first"},
       {npy("{'descr': '<f4', 'fortran_order': False}", "12345678"), "shape cannot be read"},
       {npy_of("<f4", "2", "12345678"), "shape cannot be read"},
       {npy_of("<f4", "(2", "12345678"), "shape cannot be read"},
       {npy_of("<f4", "(-2,)", "12345678"), "shape cannot be read"},
       {npy_of("<f4", "(x,)", "12345678"), "shape cannot be read"},
       {npy_of("<f4", "(99999999999999999999,)", "12345678"), "shape cannot be read"},
       {npy_of("<f4", "(4294967296, 4294967296)", "12345678"), "shape cannot be read"},
       {npy_of("<f4", "(0, 4294967296, 4294967296)", ""), "shape cannot be read"},
       {npy_of("<f4", axes + ")", "1234"), "shape cannot be read"},
       {npy_of("<f4", "(3,)", "12345678"), "8 bytes for 3 numbers"},
       {npy_of("<f4", "(1,)", "12345678"), "8 bytes for 1 numbers"},
       {npy_of("<f4", "()", "12345678"), "8 bytes for 1 numbers"},
       {npy_of("<f4", "(2,)", "1234567"), "7 bytes for 2 numbers"},
       {npy_of("<f4", "(1000000000000,)", "12345678"), "8 bytes for 1000000000000 numbers"}},
      [&](const std::string& content) { read_npy(file(content)); });
}

TEST_F(MalformedFile, BoolsOfNpyAreZeroOrOne) {
  const auto bools = read_npy(file(npy_of("|b1", "(3,)", std::string("\0\1\xff", 3))));
  EXPECT_EQ(bools.scalar_type(), torch::kBool);
  const auto bytes = bools.view(torch::kUInt8);  // what is stored, not what it counts as
  EXPECT_TRUE(torch::equal(bytes, torch::tensor({0, 1, 1}, torch::kUInt8)));
}

TEST_F(MalformedFile, Safetensors) {
  expect_refused({{"", "it has 0 bytes"},
                  {std::string(8, '\xff'), "exceeds the limit"},
                  {std::string("\xff\xff\xff\x05\0\0\0\0", 8), "exceeds the limit"},
                  {std::string("\xff\xff\xff\x04\0\0\0\0", 8), "exceeds the file's size"},
                  {safetensors(""), "not a JSON object"},
                  {safetensors("{"), "not JSON"},
                  {safetensors("{\"\xff\":1}"), "not JSON"},
                  {safetensors(R"({"x":null})"), "x is not an object"},
                  {safetensors(R"({"__metadata__":[]})"), "__metadata__ is not an object"},
                  {tensor("F32", "[1e9]", "[0,4]", "1234"), "x.shape is"},
                  {tensor("F32", "[true]", "[0,4]", "1234"), "x.shape is true"},
                  {tensor("f32", "[1]", "[0,4]", "1234"), "x.dtype is \"f32\""},
                  {tensor("F64", "[1]", "[0,4]", "1234"), "need 8"},
                  {tensor("F32", "[1]", "[-4,0]", "1234"), "not a count"},
                  {tensor("F32", "[1]", "[0,18446744073709551615]", "1234"), "outside of the 4 bytes"},
                  {tensor("U8", "[1000000000000]", "[0,1000000000000]", ""), "outside of the 0 bytes"},
                  {safetensors(R"({"__metadata__":{"sha256.header":"0","sha256.data":"0"}})"),
                   "sha256.header is malformed"}},
                 [&](const std::string& content) { read_safetensors(file(content)); });
}

}  // namespace
}  // namespace entrain::tensor_files
