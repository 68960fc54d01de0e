#include "entrain/train/apart.h"

#include <gmock/gmock.h>

#include <latch>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/tensor_files/safetensors.h"
#include "support/jobs.h"
#include "support/temp_dir.h"

namespace entrain::train {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

std::vector<Test> tests_of(const std::string& rule, const std::filesystem::path& out = {}) {
  TrainOptions options;
  options.model = "cnn7-small";
  options.optimizer.rule = rule;
  options.optimizer.period = 4;
  options.steps = 9;
  options.test_every = 3;
  options.batch_size = 2;
  options.progress = false;
  options.out = out;
  std::vector<Test> tests;
  // Rank 0's last word to go on comes when nobody asks any more: inproc takes a rank that ends before it has
  // heard it for lost.
  std::latch heard(1);
  testing::run_job("lab:3x1gbit", [&](job::Context& context) {
    if (context.rank() != 0) {
      train_apart(context, options);
      return heard.wait();
    }
    const std::shared_ptr<void> at_end(nullptr, [&](void*) { heard.count_down(); });  // also when it throws
    tests = train_apart(context, options).tests;
  });
  return tests;
}

TEST(Apart, ATestTellsHowFarWorkersAreFromTheAverageAndTheLeader) {
  const test::TempDir folder;
  const auto tests = tests_of("lsgd", folder.path() / "run");
  ASSERT_THAT(tests, SizeIs(3));
  EXPECT_THAT(tests[0].to_leader, IsEmpty()) << "nobody has led yet";
  for (const size_t i : {1, 2}) {
    EXPECT_THAT(tests[i].to_average, SizeIs(3));
    EXPECT_THAT(tests[i].to_leader, SizeIs(3));
    EXPECT_THAT(tests[i].to_leader, Each(Gt(0))) << "the leader has gone on from what it sent";
  }
  std::istringstream lines(read_file(folder.path() / "run" / "tests.jsonl"));
  std::string line;
  for (const auto& test : tests) {
    ASSERT_TRUE(std::getline(lines, line));
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json.value("to_leader", std::vector<double>{}), test.to_leader);
    EXPECT_EQ(json.at("to_average"), test.to_average);
  }
}

TEST(Apart, RulesWithoutALeaderHaveNoDistanceToIt) {
  for (const auto& test : tests_of("easgd")) {
    EXPECT_THAT(test.to_average, SizeIs(3));
    EXPECT_THAT(test.to_leader, IsEmpty());
  }
}

// ---- what is not finite

// Made-up images of which some are NaN. Each of two workers meets one of them in every epoch, as `bad` is
// even.
std::string images_with(int64_t bad, const std::filesystem::path& file, int64_t side, int64_t count = 24) {
  torch::manual_seed(3);
  torch::Tensor x = torch::randn({count, 3, side, side});
  x.narrow(0, 0, bad).fill_(NAN);
  tensor_files::TensorFile images;
  images.tensors = {{"x", x}, {"y", torch::randint(10, {count})}};
  tensor_files::write_safetensors(file, images);
  return "tensors:" + file.string();
}

TrainOptions small_job(const std::string& model, const std::string& rule, const std::filesystem::path& out) {
  TrainOptions options;
  options.model = model;
  strategy::set_rule(options.optimizer, rule);
  options.optimizer.period = 2;
  options.steps = 12;
  options.batch_size = 2;
  options.progress = false;
  options.out = out;
  return options;
}

// The text of the error that ends the job; empty: it ended well, with `report`.
std::string error_of(const TrainOptions& options, TrainReport* report = nullptr,
                     const std::string& cluster = "lab:2x1gbit") {
  std::latch heard(1);
  try {
    testing::run_job(cluster, [&](job::Context& context) {
      const std::shared_ptr<void> at_end(nullptr, [&](void*) {
        if (context.rank() == 0) heard.count_down();
      });
      const TrainReport own = train(context, options);
      if (context.rank() == 0 && report) *report = own;
      if (context.rank() != 0) heard.wait();
    });
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// Every tensor in every file that the job has left behind.
void expect_finite_files(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder)) return;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    for (const auto& [name, tensor] : tensor_files::read_safetensors(entry.path()).tensors) {
      EXPECT_TRUE(optim::all_finite(tensor)) << entry.path() << " " << name;
    }
  }
}

class ApartNonFinite : public ::testing::TestWithParam<const char*> {};

TEST_P(ApartNonFinite, ARateThatIsTooHighStopsTheJobBeforeAnythingBadIsSaved) {
  for (const double rate : {1e22, 1e30, 1e37}) {
    const test::TempDir folder;
    TrainOptions options = small_job("cnn7-small", GetParam(), folder.path() / "run");
    options.optimizer.learning_rate = rate;
    options.checkpoint_every = 1;
    options.test_every = 1;
    const std::string error = error_of(options);
    EXPECT_THAT(error, MatchesRegex(".*rank [01], step [0-9]+: .*; a lower learning rate .*")) << rate;
    expect_finite_files(folder.path());
  }
}

// The parameters of the first such step are finite, and saved; only the next loss is not.
TEST_P(ApartNonFinite, ASaveFromWhichTheNextLossIsNotFiniteIsNotResumedFrom) {
  const test::TempDir folder;
  TrainOptions options = small_job("cnn7-small", GetParam(), folder.path() / "run");
  options.steps = 4;
  ASSERT_EQ(error_of(options), "");
  options.resume = options.out;
  options.checkpoint_every = 1;
  options.steps = 20;
  options.optimizer.learning_rate = 1e30;
  ASSERT_NE(error_of(options), "");
  options.optimizer.learning_rate = 0.01;
  TrainReport report;
  EXPECT_EQ(error_of(options, &report), "");
  EXPECT_EQ(report.first_step, 4);
}

TEST_P(ApartNonFinite, StopNamesRankStepAndKeepsWhatWasSaved) {
  const test::TempDir folder;
  TrainOptions options = small_job("cnn7-small", GetParam(), folder.path() / "run");
  options.data = images_with(0, folder.path() / "good.safetensors", 28);
  options.checkpoint_every = 2;
  options.steps = 4;
  ASSERT_EQ(error_of(options), "");
  options.data = images_with(2, folder.path() / "bad.safetensors", 28);
  options.resume = options.out;
  options.steps = 100;
  EXPECT_THAT(error_of(options), MatchesRegex("(.*: )?rank [01], step [0-9]+: the loss is -?nan; .*"));
  options.data = images_with(0, folder.path() / "good.safetensors", 28);
  TrainReport report;
  EXPECT_EQ(error_of(options, &report), "") << "goes on from the last good one";
  EXPECT_GE(report.first_step, 4);
  expect_finite_files(folder.path() / "run");
}

TEST_P(ApartNonFinite, SkipLeavesOutTheUpdateAndWhatBatchNormSaw) {
  const test::TempDir folder;
  TrainOptions options = small_job("resnet20-small", GetParam(), folder.path() / "run");
  options.data = images_with(2, folder.path() / "bad.safetensors", 16);
  options.on_nonfinite = NonFinite::kSkip;
  options.steps = 24;
  TrainReport report;
  ASSERT_EQ(error_of(options, &report), "");
  EXPECT_GE(report.skipped_updates, 4);
  EXPECT_LE(report.skipped_updates, 16);
  expect_finite_files(folder.path() / "run");
}

INSTANTIATE_TEST_SUITE_P(Rules, ApartNonFinite,
                         ::testing::Values("lsgd", "easgd", "local-sgd", "bmuf", "parle", "lsgd-async",
                                           "easgd-async", "downpour", "async-ps"),
                         [](const auto& rule) {
                           std::string name = rule.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(HogwildNonFinite, StopsOrSkips) {
  const test::TempDir folder;
  TrainOptions options = small_job("resnet20-small", "hogwild", {});
  options.optimizer.threads = 2;
  options.save = folder.path() / "trained.safetensors";
  options.data = images_with(2, folder.path() / "bad.safetensors", 16);
  EXPECT_THAT(error_of(options, nullptr, "local:1"),
              MatchesRegex("rank 0, step [0-9]+: the loss is -?nan; .*"));
  EXPECT_FALSE(std::filesystem::exists(options.save));
  options.on_nonfinite = NonFinite::kSkip;
  TrainReport report;
  ASSERT_EQ(error_of(options, &report, "local:1"), "");
  EXPECT_GT(report.skipped_updates, 0);
  for (const auto& [name, tensor] : tensor_files::read_safetensors(options.save).tensors) {
    EXPECT_TRUE(optim::all_finite(tensor)) << name;
  }
}

TEST(PipelineNonFinite, StopsBeforeAnythingBadIsSaved) {
  for (const char* cells : {"threads", "ranks"}) {
    for (const double rate : {1e22, 1e37}) {
      const test::TempDir folder;
      TrainOptions options = small_job("cnn7-small", "sgd", folder.path() / "run");
      options.optimizer.learning_rate = rate;
      options.pipeline.devices = 2;
      options.pipeline.micro_batches = 2;
      options.pipeline.cells = cells;
      options.checkpoint_every = 1;
      EXPECT_THAT(error_of(options), MatchesRegex(".*rank [01], step [0-9]+: .*")) << cells << " " << rate;
      expect_finite_files(folder.path());
      options.on_nonfinite = NonFinite::kSkip;
      EXPECT_THAT(error_of(options), HasSubstr("not supported with a model in cells"));
    }
  }
}

}  // namespace
}  // namespace entrain::train
