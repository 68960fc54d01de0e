#include "entrain/trainer/apart.h"

#include <gmock/gmock.h>

#include <latch>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "entrain/base/files.h"
#include "support/jobs.h"
#include "support/temp_dir.h"

namespace entrain {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::IsEmpty;
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
  testing::run_job("lab:3x1gbit", [&](Context& context) {
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

}  // namespace
}  // namespace entrain
