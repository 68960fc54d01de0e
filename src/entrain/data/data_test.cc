#include "entrain/data/data.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "entrain/base/error.h"
#include "entrain/data/readers.h"
#include "entrain/data/shares.h"
#include "entrain/models/registry.h"
#include "entrain/tensor_files/safetensors.h"
#include "support/temp_dir.h"

namespace entrain::data {
namespace {

void write(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// `count` images; image i has label i % 10 and all pixels i.
std::string cifar10(int count) {
  std::string content;
  for (int i = 0; i < count; ++i) {
    content.push_back(static_cast<char>(i % 10));
    content.append(3072, static_cast<char>(i));
  }
  return content;
}

std::string refusal(const std::string& spec, const std::string& model, int64_t examples = 2) {
  DataOptions options;
  options.examples = examples;
  try {
    open_data(spec, *models::make_model(model, 0), options);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Shares, AnEpochShowsEachExampleOnceAmongTheWorkers) {
  std::multiset<int64_t> seen;
  for (int worker = 0; worker < 3; ++worker) {
    Shares shares(24, 12, 7);
    ASSERT_EQ(shares.steps_per_epoch(), 2);
    for (int64_t step = 2; step < 4; ++step) {  // the second epoch
      const auto batch = shares.at(step, worker * 4, 4);
      for (int64_t i = 0; i < 4; ++i) seen.insert(batch[i].item<int64_t>());
    }
  }
  EXPECT_EQ(seen.size(), 24u);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 24u);
}

TEST(Data, Cifar10IsReadAndCroppedToTheModel) {
  const test::TempDir dir;
  write(dir.path() / "data_batch_1.bin", cifar10(20));
  write(dir.path() / "data_batch_2.bin", cifar10(20));
  write(dir.path() / "test_batch.bin", cifar10(7));
  const auto model = models::make_model("cnn7-small", 0);
  DataOptions options;
  options.examples = 8;
  const auto data = open_data(dir.path().string(), *model, options);
  EXPECT_EQ(data->steps_per_epoch(), 5);
  const auto batch = data->training(3, 0, 8);
  EXPECT_EQ(batch.input.sizes().vec(), (std::vector<int64_t>{8, 3, 28, 28}));
  EXPECT_TRUE(torch::equal(batch.input, data->training(3, 0, 8).input))
      << "a batch is a function of its step";
  // An image is one colour here, so whatever crop it is still tells its label.
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_FLOAT_EQ(batch.input[i].min().item<float>(), batch.input[i].max().item<float>());
  }
  EXPECT_EQ(data->test_batches(), 1);
  EXPECT_EQ(data->test(0).target.sizes().vec(), std::vector<int64_t>{7});
  EXPECT_GT(model->loss(data->test(0)).item<double>(), 0);
}

// Who asks decides nothing: any cut of an update has the examples that the whole has, crops included.
void expect_same_however_cut(Data& data) {
  const auto whole = data.training(1, 0, 10);
  EXPECT_EQ(whole.size(), 10);
  std::vector<models::Batch> parts;
  for (const auto& [begin, count] : {std::pair{0, 3}, std::pair{3, 6}, std::pair{9, 1}}) {
    parts.push_back(data.training(1, begin, count));
  }
  const auto joined = models::Batch::joined(parts);
  EXPECT_TRUE(torch::equal(joined.input, whole.input));
  EXPECT_TRUE(torch::equal(joined.target, whole.target));
  EXPECT_FALSE(torch::equal(data.training(2, 0, 10).input, whole.input));
}

TEST(Data, AnUpdateHasTheSameExamplesHoweverItIsCut) {
  const test::TempDir dir;
  write(dir.path() / "data_batch_1.bin", cifar10(40));
  write(dir.path() / "test_batch.bin", cifar10(7));
  const auto model = models::make_model("cnn7-small", 0);
  DataOptions options;
  options.examples = 10;
  expect_same_however_cut(*open_data(dir.path().string(), *model, options));
  expect_same_however_cut(*open_data("", *model, options));
}

TEST(Data, IdxImagesOfOneChannelFeedAColourModel) {
  const test::TempDir dir;
  for (const char* prefix : {"train", "t10k"}) {
    const std::string header("\0\0\x08\x03\0\0\0\x04\0\0\0\x1c\0\0\0\x1c", 16);
    write(dir.path() / fmt::format("{}-images-idx3-ubyte", prefix),
          std::string(header).append(4 * 28 * 28, '\x05'));
    write(dir.path() / fmt::format("{}-labels-idx1-ubyte", prefix),
          std::string("\0\0\x08\x01\0\0\0\x04\0\1\2\3", 12));
  }
  DataOptions options;
  options.examples = 4;
  const auto data =
      open_data(fmt::format("idx:{}", dir.path().string()), *models::make_model("cnn7-small", 0), options);
  EXPECT_EQ(data->training(0, 0, 4).input.sizes().vec(), (std::vector<int64_t>{4, 3, 28, 28}));
}

TEST(Data, TextBecomesTheCommonestWords) {
  const Vocabulary vocabulary("the cat the dog\n\nthe cat\n", 3);
  EXPECT_EQ(vocabulary.words(), (std::vector<std::string>{"<unk>", "the", "<eos>"}));
  const auto tokens = vocabulary.tokens("the bird\n");
  EXPECT_TRUE(torch::equal(tokens, torch::tensor({1, 0, 2}, torch::kInt64)));
}

TEST(Data, TheNextWordIsTheTarget) {
  const test::TempDir dir;
  std::string text;
  for (int i = 0; i < 400; ++i) text += fmt::format("w{}{}", i % 50, i % 10 == 9 ? "\n" : " ");
  write(dir.path() / "some.txt", text);
  DataOptions options;
  options.examples = 2;
  const auto data = open_data(fmt::format("text:{}", (dir.path() / "some.txt").string()),
                              *models::make_model("lstm-small", 0), options);
  const auto batch = data->training(0, 0, 2);
  EXPECT_TRUE(torch::equal(batch.input.narrow(1, 1, batch.input.size(1) - 1),
                           batch.target.narrow(1, 0, batch.target.size(1) - 1)));
}

TEST(Data, WhatDoesNotFitIsRefusedInOneLine) {
  const test::TempDir dir;
  EXPECT_NE(refusal(dir.path().string(), "cnn7-small").find("nothing known there; allowed: cifar10:FOLDER"),
            std::string::npos);
  write(dir.path() / "data_batch_1.bin", cifar10(5).append("x"));
  write(dir.path() / "test_batch.bin", cifar10(5));
  EXPECT_NE(refusal(dir.path().string(), "cnn7-small").find("allowed: a multiple of 3073"),
            std::string::npos);
  write(dir.path() / "data_batch_1.bin", cifar10(5));
  EXPECT_NE(refusal(dir.path().string(), "cnn7-small", 6).find("fewer than the 6 of one update"),
            std::string::npos);
  EXPECT_NE(refusal(dir.path().string(), "lstm-small").find("holds images"), std::string::npos);
  EXPECT_NE(refusal("text:/nowhere/at.txt", "lstm-small").find("/nowhere/at.txt"), std::string::npos);
}

// As numpy.save writes it.
std::string npy(const std::string& descr, const std::string& shape, const std::string& bytes) {
  const std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  const char version_and_length[] = {1, 0, 118, 0};
  std::string content = "\x93NUMPY";
  content.append(version_and_length, sizeof(version_and_length));
  content.append(fmt::format("{:<117}\n", dict));
  return content.append(bytes);
}

std::string doubles(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const double value = i;
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

TEST(Data, TensorsOfTheUsersOwnAreReadByTheModelsNames) {
  const test::TempDir dir;
  write(dir.path() / "x.npy", npy("<f8", "(6, 2)", doubles(12)));
  write(dir.path() / "y.npy", npy("|u1", "(6,)", std::string("\0\1\2\3\4\5", 6)));
  write(dir.path() / "test_x.npy", npy("<f8", "(3, 2)", doubles(6)));
  write(dir.path() / "test_y.npy", npy("|u1", "(3,)", "abc"));
  const auto model = models::make_model("cnn7-small", 0);  // any whose parameters are float
  DataOptions options;
  options.examples = 2;
  const auto data = open_data(dir.path().string(), *model, options);
  EXPECT_EQ(data->steps_per_epoch(), 3);
  const auto batch = data->training(1, 0, 2);
  EXPECT_EQ(batch.input.scalar_type(), torch::kFloat32);
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(batch.input[i][0].item<double>(), 2 * batch.target[i].item<double>()) << "rows stay together";
  }
  EXPECT_EQ(data->test_batches(), 1);
  EXPECT_EQ(data->test(0).size(), 3);

  tensor_files::write_safetensors(dir.path() / "d.safetensors",
                                  {{}, {{"x", torch::rand({4, 2})}, {"y", torch::ones({4})}}, {}});
  const auto other = open_data((dir.path() / "d.safetensors").string(), *model, options);
  EXPECT_EQ(other->steps_per_epoch(), 2);
  EXPECT_EQ(other->test_batches(), 0) << "nothing is held out unasked";
}

TEST(Data, BadTensorsAreRefused) {
  const test::TempDir dir;
  const auto said = [&](const std::string& x) {
    write(dir.path() / "x.npy", x);
    return refusal(dir.path().string(), "cnn7-small");
  };
  EXPECT_NE(said(npy("<f8", "(6, 2)", doubles(12))).find("no y there; the model takes x, y"),
            std::string::npos);
  write(dir.path() / "y.npy", npy("|u1", "(6,)", "abcdef"));
  EXPECT_NE(said("junk").find("no .npy file"), std::string::npos);
  EXPECT_NE(said(npy("<c8", "(6,)", "")).find("kind '<c8'"), std::string::npos);
  EXPECT_NE(said(npy("<f8", "(7, 2)", doubles(12))).find("96 bytes for 14 numbers"), std::string::npos);
  EXPECT_NE(said(npy("<f8", "(9223372036854775807, 4)", "")).find("shape cannot be read"), std::string::npos);
  EXPECT_NE(said(npy("<f8", "(5, 2)", doubles(10))).find("y is [6], but x has [5, 2]"), std::string::npos);
  EXPECT_NE(said(npy("<f8", "(1, 2)", doubles(2)).substr(0, 30)).find("beyond the file's end"),
            std::string::npos);
}

}  // namespace
}  // namespace entrain::data
