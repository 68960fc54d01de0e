#include "entrain/tuner/noted_runner.h"

#include <gtest/gtest.h>

#include <functional>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/tuner/testing.h"
#include "support/temp_dir.h"

namespace entrain::tuner {
namespace {

namespace fs = std::filesystem;

class Scripted final : public TrialRunner {
 public:
  explicit Scripted(std::function<Measured()> body) : body_(std::move(body)) {}
  Measured run(const strategy::Strategy&, double) override { return body_(); }

 private:
  std::function<Measured()> body_;
};

class NotedRunnerTest : public ::testing::Test {
 protected:
  NotedRunnerTest() : domain_(testing::domain()) {
    domain_.trials.clear();
    dataset::TrialLog(log_).begin(domain_);
  }

  strategy::Strategy ps() const { return strategy::build("ps", domain_.graph, domain_.cluster); }
  std::vector<dataset::Trial> logged() const { return dataset::load(log_).find(domain_.name)->trials; }
  // As when the job ends in the middle of this trial.
  void leave_note(int number, const strategy::Strategy& strategy) {
    Scripted broken([]() -> Measured { fail("the job is gone"); });
    NotedRunner runner(broken, note_, domain_.name, number);
    EXPECT_THROW(runner.run(strategy, 1), Error);
    EXPECT_TRUE(fs::exists(note_));
  }

  test::TempDir dir_;
  const fs::path note_ = dir_.path() / "running.jsonl", log_ = dir_.path() / "trials.jsonl";
  dataset::Domain domain_;
};

TEST_F(NotedRunnerTest, TheNoteIsThereWhileTheTrialRuns) {
  Scripted inner([&] {
    EXPECT_TRUE(fs::exists(note_));
    return Measured{{0.5}, dataset::Status::kOk, ""};
  });
  const int number = 0;
  NotedRunner runner(inner, note_, domain_.name, number);
  EXPECT_EQ(runner.run(ps(), 1).seconds, std::vector<double>{0.5});
  EXPECT_FALSE(fs::exists(note_));
  EXPECT_FALSE(record_breakdown(note_, log_, domain_.name));
  EXPECT_TRUE(logged().empty());
}

TEST_F(NotedRunnerTest, ATrialThatTookTheJobDownIsRecordedOnceAsFailed) {
  leave_note(0, ps());
  EXPECT_TRUE(record_breakdown(note_, log_, domain_.name));
  EXPECT_FALSE(fs::exists(note_));
  ASSERT_EQ(logged().size(), 1U);
  EXPECT_EQ(logged()[0].number, 0);
  EXPECT_EQ(logged()[0].strategy.id, "ps");
  EXPECT_EQ(logged()[0].origin, "builder");
  EXPECT_EQ(logged()[0].status, dataset::Status::kFailed);
  EXPECT_EQ(logged()[0].error, "the job ended during this trial");
  EXPECT_FALSE(record_breakdown(note_, log_, domain_.name));
  leave_note(0, ps());  // an error that some rank wrote down before the job ended
  EXPECT_TRUE(record_breakdown(note_, log_, domain_.name));
  EXPECT_EQ(logged().size(), 1U);
  strategy::Strategy found = ps();
  found.id = "17";
  leave_note(1, found);
  EXPECT_TRUE(record_breakdown(note_, log_, domain_.name));
  ASSERT_EQ(logged().size(), 2U);
  EXPECT_EQ(logged()[1].origin, "proposed");
}

TEST_F(NotedRunnerTest, ANoteThatIsCutOffIsTakenAway) {
  write_file_atomically(note_, "{\"trial\": ");
  EXPECT_FALSE(record_breakdown(note_, log_, domain_.name));
  EXPECT_FALSE(fs::exists(note_));
  EXPECT_TRUE(logged().empty());
}

}  // namespace
}  // namespace entrain::tuner
