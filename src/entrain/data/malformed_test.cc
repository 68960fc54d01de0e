// Files of examples that are wrong, each refused by one line that says how.
#include <gtest/gtest.h>

#include <fstream>

#include "entrain/data/data.h"
#include "entrain/data/readers.h"
#include "entrain/models/registry.h"
#include "support/malformed.h"
#include "support/temp_dir.h"

namespace entrain::data {
namespace {

using test::expect_refused;

class MalformedExamples : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& content, const std::string& name = "x") const {
    const auto path = folder_.path() / name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  test::TempDir folder_;
};

std::string idx(const std::string& head, const std::string& data) {
  return std::string(2, '\0') + head + data;
}

TEST_F(MalformedExamples, Idx) {
  const auto sizes = [](std::initializer_list<int> bytes) { return std::string(bytes.begin(), bytes.end()); };
  expect_refused({{"", "no IDX file"},
                  {"abc", "no IDX file"},
                  {"\x1f\x8b\x08 ", "no IDX file"},  // still compressed
                  {idx("\x0d\x01", sizes({0, 0, 0, 1}) + "1234"), "IDX data type is 0x0d"},
                  {idx("\xff\x01", sizes({0, 0, 0, 1}) + "1"), "IDX data type is 0xff"},
                  {idx(std::string("\x08\0", 2), ""), "cut short"},
                  {idx("\x08\x05", std::string(20, '\1')), "cut short"},
                  {idx("\x08\xff", std::string(2000, '\1')), "cut short"},
                  {idx("\x08\x03", sizes({0, 0, 0, 1})), "cut short"},
                  {idx("\x08\x01", sizes({0, 0, 0, 0})), "empty"},
                  {idx("\x08\x04", sizes({0, 0, 0, 0}) + std::string(12, '\xff')), "empty"},
                  {idx("\x08\x01", sizes({0, 0, 0, 3}) + "12"), "2 bytes of data, its header says 3"},
                  {idx("\x08\x01", sizes({0, 0, 0, 1}) + "12"), "2 bytes of data, its header says 1"},
                  {idx("\x08\x04", std::string(16, '\xff')), "0 bytes of data, its header says 4294967295"},
                  {idx("\x08\x02", std::string("\x80\0\0\0\x80\0\0\0", 8)), "its header says 2147483648"}},
                 [&](const std::string& content) { read_idx(file(content)); });
}

TEST_F(MalformedExamples, ImagesAndTheirLabels) {
  const std::string image = idx("\x08\x03", std::string("\0\0\0\1\0\0\0\1\0\0\0\1", 12) + "1");
  const std::string two = idx("\x08\x01", std::string("\0\0\0\2", 4) + "12");
  const std::string one = idx("\x08\x01", std::string("\0\0\0\1", 4) + "1");
  expect_refused(
      {{two, "there are 2 and 1"}, {image, "as many labels as images"}},
      [&](const std::string& labels) { read_idx_images(file(image, "images"), file(labels, "labels")); });
  expect_refused({{one, "as many labels as images"}}, [&](const std::string& images) {
    read_idx_images(file(images, "images"), file(one, "labels"));
  });
}

TEST_F(MalformedExamples, Cifar10) {
  expect_refused({{"", "0 bytes, allowed: a multiple of 3073"},
                  {"x", "1 bytes, allowed: a multiple of 3073"},
                  {std::string(3072, '\0'), "3072 bytes"},
                  {std::string(3074, '\0'), "3074 bytes"},
                  {std::string(3073, '\x0a'), "a label is 10, allowed: 0 to 9"},
                  {std::string(3073, '\xff'), "a label is 255"}},
                 [&](const std::string& content) { read_cifar10({file(content)}); });
}

TEST_F(MalformedExamples, Text) {
  const auto model = models::make_model("lstm-small", 0);
  expect_refused({{"", "text in lines is wanted"},
                  {"one line", "text in lines is wanted"},
                  {std::string(100'000, 'x'), "text in lines is wanted"},
                  {"a few\nwords\n", "more than the model's sequence"},
                  {std::string(100'000, '\n'), "0 words"}},
                 [&](const std::string& content) {
                   DataOptions options;
                   options.examples = 2;
                   open_data("text:" + file(content).string(), *model, options);
                 });
}

}  // namespace
}  // namespace entrain::data
