// A tune as its user meets it: it beats random, survives failures, goes on where it was killed, and a lucky
// draw does not win.
#include "entrain/tuner/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "entrain/base/error.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/tuner/testing.h"

namespace entrain::tuner {
namespace {

using dataset::Status;
using dataset::Trial;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kBuilders = 10;
constexpr size_t kFinalRound = 15;  // three proposals and two builders, three times

class TuneTest : public ::testing::Test {
 protected:
  TuneTest() { std::filesystem::create_directories(folder_); }
  ~TuneTest() override { std::filesystem::remove_all(folder_); }

  TuneOptions options(Mode mode = Mode::kOwn, int trials = 12) const {
    TuneOptions o;
    o.trials = trials;
    o.search.mode = mode;
    o.search.evaluations = 600;
    o.search.population = 60;
    return o;
  }
  std::filesystem::path log() const { return folder_ / "trials.jsonl"; }
  TuneResult run(TrialRunner& with, const TuneOptions& o) {
    dataset::Domain domain = d;
    if (std::filesystem::exists(log())) domain.trials = logged();
    dataset::TrialLog trial_log(log());
    Guide guide;
    guide.simulator = &simulator;
    return tune(domain, with, trial_log, guide, o);
  }
  std::vector<Trial> logged() const { return dataset::load(log()).domains.at(0).trials; }

  dataset::Domain d = testing::domain();
  testing::WrongSimulator simulator{d};
  testing::FakeRunner runner{d};

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("entrain_tune_" + std::to_string(::getpid()));
};

TEST_F(TuneTest, RunsBuildersThenProposalsThenTheFinalRound) {
  const TuneResult result = run(runner, options());
  const std::vector<Trial> trials = logged();
  ASSERT_EQ(trials.size(), kBuilders + 12u + kFinalRound);
  std::vector<std::string> builders;
  for (size_t i = 0; i < trials.size(); ++i) {
    EXPECT_EQ(trials[i].number, static_cast<int>(i));
    if (trials[i].origin == kBuilderOrigin) builders.push_back(trials[i].strategy.id);
    EXPECT_EQ(is_proposed(trials[i]), i >= kBuilders && i < kBuilders + 12) << i;
  }
  EXPECT_EQ(builders, strategy::names());
  // Three candidates and two builders, alternately.
  for (size_t i = kBuilders + 12; i + 5 < trials.size(); ++i) {
    EXPECT_EQ(trials[i].origin, kConfirmOrigin);
    EXPECT_EQ(trials[i].strategy, trials[i + 5].strategy);
  }
  EXPECT_EQ(trials[kBuilders + 15].strategy.id, result.best_baseline);

  EXPECT_EQ(result.trials, 12);
  EXPECT_EQ(result.failed, 0);
  EXPECT_EQ(result.curve.size(), 12u);
  EXPECT_EQ(result.baselines.size(), static_cast<size_t>(kBuilders));
  EXPECT_EQ(result.baselines.front().name, result.best_baseline);
  EXPECT_NEAR(result.speedup, result.baseline_s / result.best_s, 1e-12);
}

TEST_F(TuneTest, BeatsRandomExploration) {
  const testing::Formula truth = testing::truth(d);
  std::map<Mode, double> seconds, hits;
  for (const Mode mode : {Mode::kOwn, Mode::kRandom, Mode::kRandomPublished}) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      TuneOptions o = options(mode, 24);
      o.search.seed = seed;
      const TuneResult result = run(runner, o);
      seconds[mode] += truth(result.best);
      hits[mode] += result.hit_rate;
      std::filesystem::remove(log());
    }
  }
  EXPECT_LT(seconds[Mode::kOwn], seconds[Mode::kRandom]);
  EXPECT_LT(seconds[Mode::kOwn], seconds[Mode::kRandomPublished]);
  EXPECT_GT(hits[Mode::kOwn] / 3, hits[Mode::kRandom] / 3 + 0.2);
  EXPECT_GT(hits[Mode::kOwn] / 3, hits[Mode::kRandomPublished] / 3 + 0.2);
}

// Killed after each possible trial: the log ends up the same as if nothing had happened.
TEST_F(TuneTest, ResumesAsIfNothingHadHappened) {
  for (const Mode mode : {Mode::kOwn, Mode::kRandom}) {
    TuneOptions o = options(mode, 10);
    o.search.evaluations = 120;
    o.search.population = 40;
    run(runner, o);
    const std::vector<Trial> whole = logged();
    std::filesystem::remove(log());
    for (size_t killed = 0; killed < whole.size(); ++killed) {
      testing::FakeRunner first(d);
      size_t asked = 0;
      o.stop = [&] { return asked++ == killed; };
      if (killed == 0) {
        EXPECT_THROW(run(first, o), Error);  // nothing ran, so there is no best
      } else {
        run(first, o);
      }
      EXPECT_EQ(logged().size(), killed);
      o.stop = nullptr;
      run(first, o);
      EXPECT_EQ(logged(), whole) << "killed after " << killed;
      std::filesystem::remove(log());
    }
    runner = testing::FakeRunner(d);
  }
}

TEST_F(TuneTest, ALargerBudgetGoesOnFromAnOldLog) {
  run(runner, options(Mode::kOwn, 6));
  const size_t before = logged().size();
  const TuneResult result = run(runner, options(Mode::kOwn, 10));
  const std::vector<Trial> trials = logged();
  EXPECT_EQ(result.trials, 10);
  EXPECT_GE(trials.size(), before + 4);
  std::set<uint64_t> proposed;
  for (size_t i = 0; i < trials.size(); ++i) {
    EXPECT_EQ(trials[i].number, static_cast<int>(i));
    if (is_proposed(trials[i])) {
      EXPECT_TRUE(proposed.insert(fingerprint(trials[i].strategy)).second);
    }
  }
}

TEST_F(TuneTest, FailingTrialsDoNotEndIt) {
  runner.throwing = {1, 11, 12};
  runner.late = {3, 14};
  const TuneResult result = run(runner, options());
  const std::vector<Trial> trials = logged();
  EXPECT_EQ(trials.size(), kBuilders + 12u + kFinalRound);
  EXPECT_EQ(result.failed, 5);
  EXPECT_EQ(result.trials, 12);
  EXPECT_EQ(trials[1].status, Status::kFailed);
  EXPECT_EQ(trials[1].error, "out of memory");
  EXPECT_EQ(trials[14].status, Status::kDeadline);
  EXPECT_EQ(result.baselines.size(), kBuilders - 2u);
}

TEST_F(TuneTest, ABrokenJobIsRecordedAndEndsIt) {
  runner.broken = {13};
  EXPECT_THROW(run(runner, options()), PeerError);
  const std::vector<Trial> trials = logged();
  ASSERT_EQ(trials.size(), 14u);
  EXPECT_EQ(trials.back().status, Status::kFailed);
  EXPECT_THAT(trials.back().error, HasSubstr("rank 2"));
  run(runner, options());  // with the job standing again
  EXPECT_EQ(logged().size(), kBuilders + 12u + kFinalRound);
}

TEST_F(TuneTest, WithoutAnyBuilderThereIsNoResult) {
  for (int i = 0; i < 100; ++i) runner.throwing.insert(i);
  try {
    run(runner, options());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("out of memory"));
  }
  EXPECT_EQ(logged().size(), static_cast<size_t>(kBuilders));  // no point in searching
}

TEST_F(TuneTest, KeepsToItsMinutes) {
  TuneOptions o = options(Mode::kRandom, 1000);
  double clock = 0;  // each trial takes 10 s
  o.now = [&] { return clock; };
  o.stop = [&] {
    clock += 10;
    return false;
  };
  o.minutes = 10;
  run(runner, o);
  EXPECT_LE(logged().size(), 61u);
  EXPECT_GE(logged().size(), 55u);
  EXPECT_EQ(logged().back().origin, kConfirmOrigin);
}

TEST_F(TuneTest, TellsItsProgress) {
  dataset::TrialLog trial_log(log());
  std::vector<TuneProgress> seen;
  tune(d, runner, trial_log, {}, options(Mode::kRandom, 5),
       [&](const TuneProgress& p) { seen.push_back(p); });
  ASSERT_EQ(seen.size(), kBuilders + 5u + kFinalRound);
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].done, static_cast<int>(i) + 1);
    EXPECT_EQ(seen[i].total, static_cast<int>(seen.size())) << i;
    EXPECT_GT(seen[i].best_s, 0);
  }
  EXPECT_EQ(seen[0].phase, TuneProgress::Phase::kBuilders);
  EXPECT_EQ(seen[12].phase, TuneProgress::Phase::kSearch);
  EXPECT_EQ(seen.back().phase, TuneProgress::Phase::kConfirm);
}

Trial hand_made(int number, const std::string& id, double seconds, const std::string& origin) {
  Trial t;
  t.number = number;
  t.strategy.id = id;
  t.strategy.variables = {{id, std::nullopt, {}}};
  t.seconds = {seconds};
  t.origin = origin;
  return t;
}

TEST(Summary, HitRateAndImprovementAtK) {
  std::vector<Trial> trials = {hand_made(0, "ps", 1.2, "builder"), hand_made(1, "ddp", 1.0, "builder"),
                               hand_made(2, "a", 1.1, "random"),   hand_made(3, "b", 0.8, "mutation"),
                               hand_made(4, "c", 9.0, "random"),   hand_made(5, "d", 0.9, "random")};
  trials[4].status = Status::kFailed;
  const TuneResult result = summarize(trials);
  EXPECT_EQ(result.best_baseline, "ddp");
  EXPECT_EQ(result.best.id, "b");
  EXPECT_DOUBLE_EQ(result.speedup, 1.25);
  EXPECT_DOUBLE_EQ(result.hit_rate, 2.0 / 3);
  std::vector<double> improvements, hit_rates;
  for (const CurvePoint& p : result.curve) {
    improvements.push_back(p.improvement);
    hit_rates.push_back(p.hit_rate);
  }
  EXPECT_THAT(improvements, ElementsAre(1.0 / 1.1, 1.25, 1.25, 1.25));
  EXPECT_THAT(hit_rates, ElementsAre(0, 0.5, 0.5, 2.0 / 3));
}

TEST(Summary, ALuckyDrawDoesNotWinTheFinalRound) {
  std::vector<Trial> trials = {hand_made(0, "ps", 1.0, "builder"), hand_made(1, "lucky", 0.7, "random"),
                               hand_made(2, "good", 0.85, "random")};
  for (int round = 0; round < 2; ++round) {
    trials.push_back(hand_made(3, "lucky", 1.1, "confirm"));
    trials.push_back(hand_made(4, "good", 0.9, "confirm"));
    trials.push_back(hand_made(5, "ps", 1.02, "confirm"));
  }
  EXPECT_EQ(summarize(trials).best.id, "good");
  EXPECT_DOUBLE_EQ(summarize(trials).speedup, 1.02 / 0.9);
}

TEST(Summary, WhatIsFasterOnlyNowAndThenLosesToABuilder) {
  std::vector<Trial> trials = {hand_made(0, "ps", 1.0, "builder"), hand_made(1, "maybe", 0.9, "random")};
  for (const double seconds : {0.9, 1.01, 0.9}) {
    trials.push_back(hand_made(2, "maybe", seconds, "confirm"));
    trials.push_back(hand_made(3, "ps", 1.0, "confirm"));
  }
  EXPECT_EQ(summarize(trials).best.id, "ps");
}

TEST(Summary, TheFinalRoundDecidesBetweenBuildersToo) {
  const std::vector<Trial> trials = {
      hand_made(0, "ps", 1.0, "builder"),  hand_made(1, "ddp", 1.05, "builder"),
      hand_made(2, "slow", 2.0, "random"), hand_made(3, "slow", 2.0, "confirm"),
      hand_made(4, "ps", 1.1, "confirm"),  hand_made(5, "ddp", 1.05, "confirm")};
  const TuneResult result = summarize(trials);
  EXPECT_EQ(result.best_baseline, "ddp");
  EXPECT_EQ(result.best.id, "ddp");
  EXPECT_EQ(result.baselines.front().name, "ddp");
}

// "tuned: parallax itself 747 us", and below it "byteps 523 us": the first look at byteps was a lucky one.
TEST(Summary, BuildersOfTheFinalRoundComeBeforeThoseThatHadAFirstLookOnly) {
  const std::vector<Trial> trials = {
      hand_made(0, "ps", 1.0, "builder"),     hand_made(1, "ddp", 1.05, "builder"),
      hand_made(2, "byteps", 1.1, "builder"), hand_made(3, "slow", 2.0, "random"),
      hand_made(4, "slow", 3.0, "confirm"),   hand_made(5, "ps", 1.6, "confirm"),
      hand_made(6, "ddp", 1.5, "confirm"),    hand_made(7, "ps", 1.7, "confirm")};
  const TuneResult result = summarize(trials);
  std::vector<std::string> names;
  for (const Standing& b : result.baselines) names.push_back(b.name);
  EXPECT_THAT(names, ElementsAre("ddp", "ps", "byteps"));
  EXPECT_TRUE(result.had_final_round);
  const Standing& ps = *result.find("ps");
  EXPECT_TRUE(ps.final_round);
  EXPECT_DOUBLE_EQ(ps.seconds, 1.65);
  EXPECT_DOUBLE_EQ(ps.first_look_s, 1.0);
  EXPECT_DOUBLE_EQ(ps.fastest_s, 1.6);
  EXPECT_DOUBLE_EQ(ps.slowest_s, 1.7);
  EXPECT_FALSE(result.find("byteps")->final_round);
  EXPECT_EQ(result.find("nosuch"), nullptr);
  EXPECT_EQ(result.tuned.seconds, 1.5);
}

TEST(Summary, OfEquallyFastProposalsTheEarlierOneIsTheFinalist) {
  const std::vector<Trial> trials = {hand_made(0, "ps", 1.0, "builder"), hand_made(1, "a", 0.9, "random"),
                                     hand_made(2, "b", 0.9, "random"), hand_made(3, "c", 0.9, "random")};
  EXPECT_THAT(finalists(trials, 2), ElementsAre(1, 2, 0));
}

TEST(Summary, WithoutAFinalRoundAStandingSpansATenthToNineTenthsOfItsSteps) {
  Trial ps = hand_made(0, "ps", 1.0, "builder");
  ps.seconds = {5, 1, 2, 3, 4, 6, 7, 11, 8, 9, 10};
  const Standing standing = summarize({ps}).baselines.at(0);
  EXPECT_FALSE(standing.final_round);
  EXPECT_DOUBLE_EQ(standing.fastest_s, 2);
  EXPECT_DOUBLE_EQ(standing.seconds, 6);
  EXPECT_DOUBLE_EQ(standing.slowest_s, 10);
}

TEST(Summary, BuildersWhoseTrialsOverlapAreWithinNoise) {
  std::vector<Trial> trials = {hand_made(0, "ps", 1.0, "builder"), hand_made(1, "ddp", 1.05, "builder"),
                               hand_made(2, "byteps", 1.1, "builder"), hand_made(3, "slow", 2.0, "random")};
  for (const double drift : {1.0, 1.1}) {
    trials.push_back(hand_made(4, "slow", 2.0 * drift, "confirm"));
    trials.push_back(hand_made(5, "ps", 1.0 * drift, "confirm"));
    trials.push_back(hand_made(6, "ddp", 1.05 * drift, "confirm"));
  }
  const TuneResult result = summarize(trials);
  EXPECT_TRUE(result.is_baseline);
  EXPECT_EQ(result.best_baseline, "ps");
  EXPECT_THAT(result.within_noise(), ElementsAre("ddp"));  // nothing is said of byteps: another round
}

TEST(Summary, TheReferenceJoinsTheFinalRound) {
  const std::vector<Trial> trials = {hand_made(0, "ps", 1.0, "builder"),
                                     hand_made(1, "byteps", 1.1, "builder"),
                                     hand_made(2, "allreduce", 1.2, "builder"),
                                     hand_made(3, "ddp", 1.3, "builder"), hand_made(4, "a", 0.9, "random")};
  EXPECT_THAT(finalists(trials, 3), ElementsAre(4, 0, 1));
  EXPECT_THAT(finalists(trials, 3, "ddp"), ElementsAre(4, 0, 1, 3));
  EXPECT_THAT(finalists(trials, 3, "ps"), ElementsAre(4, 0, 1));
  EXPECT_THAT(finalists(trials, 3, "nosuch"), ElementsAre(4, 0, 1));
}

TEST(Summary, IsNeverWorseThanTheBestBuilder) {
  std::vector<Trial> trials = {hand_made(0, "ps", 1.0, "builder"), hand_made(1, "lucky", 0.7, "random"),
                               hand_made(2, "lucky", 1.1, "confirm"), hand_made(3, "ps", 1.0, "confirm")};
  const TuneResult result = summarize(trials);
  EXPECT_TRUE(result.is_baseline);
  EXPECT_EQ(result.best.id, "ps");
  EXPECT_EQ(result.speedup, 1);
}

}  // namespace
}  // namespace entrain::tuner
