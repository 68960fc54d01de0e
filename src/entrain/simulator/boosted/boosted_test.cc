#include "entrain/simulator/boosted/boosted.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <numeric>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/simulator/analytic/event_simulation.h"
#include "entrain/simulator/boosted/boosting.h"
#include "entrain/simulator/boosted/tally.h"
#include "entrain/simulator/ranking.h"
#include "entrain/simulator/testing.h"

namespace entrain::simulator {
namespace {

using testing::lesson_of;

// The event simulation is right but for servers, which are slower than it thinks, and small messages.
testing::Truth skewed_truth(const graph::Graph& g, const cluster::Cluster& c) {
  return [event = std::make_shared<EventSimulation>(g, c, Calibration{}),
          tallier = std::make_shared<Tallier>(g, c)](const strategy::Strategy& s) {
    const Tally t = tallier->tally(s);
    return event->estimate(s).seconds * (1 + 2 * t.kinds[0]) * (1 + 0.02 * t.messages);
  };
}

double accuracy(const std::vector<double>& scores, const Lesson& lesson) {
  std::vector<double> seconds;
  for (const auto* trial : lesson.trials) seconds.push_back(trial->step_s());
  return pair_accuracy(scores, seconds);
}

std::vector<strategy::Strategy> strategies_of(const Lesson& lesson) {
  std::vector<strategy::Strategy> strategies;
  for (const auto* trial : lesson.trials) strategies.push_back(trial->strategy);
  return strategies;
}

std::filesystem::path temporary(const std::string& name) {
  return std::filesystem::temp_directory_path() / fmt::format("entrain-{}-{}", ::getpid(), name);
}

struct BoostedTest : ::testing::Test {
  dataset::Domain domain = testing::make_domain("lab:1x10gbit+3x1gbit", 6, 260, 1, skewed_truth);
  Lesson test = lesson_of(domain, 160, 260);
  std::vector<strategy::Strategy> asked = strategies_of(test);
};

TEST_F(BoostedTest, CorrectsTheEventSimulation) {
  const EventSimulation event(domain.graph, domain.cluster, {});
  const double before = accuracy(event.score(asked), test);
  Boosted ranker;
  ranker.learn({lesson_of(domain, 0, 130)}, {lesson_of(domain, 130, 160)}, {});
  const double after = accuracy(ranker.score(test, asked), test);
  EXPECT_LT(before, 0.9);
  EXPECT_GT(after, 0.93);
}

TEST_F(BoostedTest, WithFewTrialsItIsNotMuchWorseThanTheEventSimulation) {
  const EventSimulation event(domain.graph, domain.cluster, {});
  const double before = accuracy(event.score(asked), test);
  for (const size_t few : {0, 1, 2, 8}) {
    Boosted ranker;
    ranker.learn({lesson_of(domain, 0, few)}, {}, {});
    EXPECT_GT(accuracy(ranker.score(test, asked), test), before - 0.03) << few;
  }
}

TEST_F(BoostedTest, WhatItLearntHoldsOnAnotherCluster) {
  const auto other = testing::make_domain("lab:3x1gbit", 9, 100, 7, skewed_truth);
  const Lesson there = lesson_of(other, 0, 100);
  Boosted ranker;
  ranker.learn({lesson_of(domain, 0, 160)}, {}, {});
  const EventSimulation event(other.graph, other.cluster, {});
  const auto strategies = strategies_of(there);
  EXPECT_GT(accuracy(ranker.score(there, strategies), there),
            accuracy(event.score(strategies), there) + 0.02);
}

TEST_F(BoostedTest, SameSeedSameScoresAndTheMembersDisagree) {
  Boosted a, b;
  a.learn({lesson_of(domain, 0, 60)}, {}, {.seed = 5});
  b.learn({lesson_of(domain, 0, 60)}, {}, {.seed = 5});
  EXPECT_EQ(a.score(test, asked), b.score(test, asked));
  double uncertain = 0;
  for (const UncertainScore& p : a.predict(test, asked)) uncertain += p.uncertainty > 0 ? 1 : 0;
  EXPECT_GT(uncertain, 90);
}

TEST_F(BoostedTest, SavedAndLoadedItScoresTheSame) {
  const auto path = temporary("boosted.json");
  Boosted ranker;
  ranker.learn({lesson_of(domain, 0, 60)}, {}, {});
  ranker.save(path);
  EXPECT_EQ(Boosted::load(path)->score(test, asked), ranker.score(test, asked));
  std::filesystem::remove(path);
}

std::string refusal(const std::filesystem::path& path) {
  try {
    Boosted::load(path);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST_F(BoostedTest, OtherFeaturesAreRefusedInOneLine) {
  const auto path = temporary("other.json");
  Boosted ranker;
  ranker.learn({lesson_of(domain, 0, 30)}, {}, {});
  ranker.save(path);
  const std::string good = read_file(path);
  std::string bad = good;
  bad.replace(bad.find("share_proxy"), 11, "share_pixie");
  write_file_atomically(path, bad);
  EXPECT_THAT(refusal(path), ::testing::AllOf(::testing::HasSubstr("share_pixie, wanted share_proxy"),
                                              ::testing::Not(::testing::HasSubstr("\n"))));
  write_file_atomically(path, good.substr(0, good.size() / 2));
  EXPECT_THAT(refusal(path), ::testing::HasSubstr("damaged"));
  write_file_atomically(path, "{}\n");
  EXPECT_THAT(refusal(path), ::testing::HasSubstr("not a ranker file"));
  std::filesystem::remove(path);
}

TEST_F(BoostedTest, TheFirstFeatureIsComparedToo) {
  const auto path = temporary("first.json");
  Boosted ranker;
  ranker.learn({lesson_of(domain, 0, 30)}, {}, {.epochs = 5});
  ranker.save(path);
  std::string bad = read_file(path);
  bad.replace(bad.find("event_log_seconds"), 17, "event_log_minutes");
  write_file_atomically(path, bad);
  EXPECT_THAT(refusal(path), ::testing::HasSubstr("event_log_minutes, wanted event_log_seconds"));
  std::filesystem::remove(path);
}

TEST_F(BoostedTest, OneBagHasNobodyToDisagreeWith) {
  BoostedOptions options;
  options.bags = 1;
  Boosted ranker(options);
  ranker.learn({lesson_of(domain, 0, 60)}, {}, {.epochs = 20});
  for (const UncertainScore& p : ranker.predict(test, asked)) EXPECT_EQ(p.uncertainty, 0);
}

// One lesson of trials with one feature, by trial, and the log seconds they took.
Examples examples(const std::vector<float>& feature, const std::vector<double>& target) {
  const size_t n = target.size();
  return {{feature, 1}, std::vector<double>(n), target, std::vector<int>(n), std::vector<double>(n, 1)};
}

// Trees that learn from `from` all they can.
std::vector<Tree> boosted_from(const Examples& from, const Examples& held, int rounds) {
  BoostedOptions options;
  options.rate = 1;
  options.patience = 5;
  options.tree = {.depth = 1, .min_leaf = 1, .l2 = 0, .feature_share = 1};
  std::vector<int> inside(static_cast<size_t>(from.count()));
  std::iota(inside.begin(), inside.end(), 0);
  std::mt19937_64 rng(0);
  return boost(from, inside, {}, held, rounds, options, rng);
}

TEST(Boosting, TrialsThatNothingTellsApartStayWhereTheyAre) {
  const auto trees = boosted_from(examples({1, 1, 1, 1}, {0, 1, 2, 3}), {}, 3);
  ASSERT_EQ(trees.size(), 3u);
  const float same = 1;
  for (const Tree& tree : trees) EXPECT_NEAR(tree.predict(&same), 0, 1e-6);
}

// sigma is 1/2 and its slope 1/4 where scores are equal: 1/2 over 1/4, in units of tau.
TEST(Boosting, ATreeGoesNoFurtherThanTheSlopeSays) {
  const auto trees = boosted_from(examples({0, 1}, {0, 10}), {}, 1);
  ASSERT_EQ(trees.size(), 1u);
  const float fast = 0, slow = 1;
  EXPECT_NEAR(trees[0].predict(&slow), 2 * BoostedOptions{}.tau, 1e-5);
  EXPECT_NEAR(trees[0].predict(&fast), -2 * BoostedOptions{}.tau, 1e-5);
}

TEST(Boosting, KeepsTreesThatOrderHeldTrialsAndNoOthers) {
  const Examples from = examples({0, 1}, {0, 1});
  EXPECT_FALSE(boosted_from(from, examples({0, 1}, {0, 1}), 20).empty());
  EXPECT_TRUE(boosted_from(from, examples({0, 1}, {1, 0}), 20).empty());
  // Right about the first two, wrong about each other pair.
  EXPECT_TRUE(boosted_from(from, examples({0, 1, 0, 0}, {0, 1, 10, 10}), 20).empty());
}

}  // namespace
}  // namespace entrain::simulator
