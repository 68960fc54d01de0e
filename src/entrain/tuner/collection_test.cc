#include "entrain/tuner/collection.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/stored.h"
#include "entrain/tuner/testing.h"

namespace entrain::tuner {
namespace {

constexpr int kTrials = 40;

// A collection in which trial k took k + 1 seconds.
dataset::Domain collected(int trials) {
  dataset::Domain domain = testing::domain();
  domain.trials.clear();
  const Collection collection(domain, kTrials, 3);
  for (int k = 0; k < trials; ++k) {
    const NextTrial trial_to_run = collection.next();
    dataset::Trial trial;
    trial.number = k;
    trial.strategy = trial_to_run.strategy;
    trial.origin = trial_to_run.origin;
    trial.seconds = {k + 1.0};
    domain.trials.push_back(trial);
  }
  return domain;
}

TEST(Collection, BuildersComeFirstInTheirOrder) {
  const auto names = strategy::names();
  const auto domain = collected(static_cast<int>(names.size()) + 1);
  for (size_t k = 0; k < names.size(); ++k) {
    EXPECT_EQ(domain.trials[k].strategy.id, names[k]);
    EXPECT_EQ(domain.trials[k].origin, "builder");
  }
  EXPECT_NE(domain.trials[names.size()].origin, "builder");
}

TEST(Collection, ACollectionThatWasKilledGoesOnAsIfNothingHadHappened) {
  const auto whole = collected(kTrials);
  auto half = collected(20);
  const Collection again(half, kTrials, 3);
  EXPECT_EQ(strategy::to_json(again.next().strategy), strategy::to_json(whole.trials[20].strategy));
}

TEST(Collection, DrawsFromBothSpacesAndFromGoodStrategies) {
  std::map<std::string, int> origins;
  for (const auto& trial : collected(kTrials).trials) ++origins[trial.origin];
  for (const char* origin : {"random", "published", "mutation"}) EXPECT_GT(origins[origin], 0) << origin;
}

TEST(Collection, NeighbouringSeedsAndTrialsDrawOtherStrategies) {
  dataset::Domain domain = collected(20);
  for (auto& trial : domain.trials) trial.status = dataset::Status::kFailed;  // nothing good to learn from
  std::set<std::string> drawn;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Collection collection(domain, kTrials, seed);
    for (const size_t k : {20U, 21U, 22U, 23U}) {
      domain.trials.resize(k, domain.trials.back());
      dataset::Trial trial;
      trial.strategy = collection.next().strategy;
      trial.strategy.id.clear();
      drawn.insert(strategy::to_json(trial.strategy));
    }
    domain.trials.resize(20);
  }
  EXPECT_GT(drawn.size(), 12U);  // two draws may be alike
}

TEST(Collection, AfterTheLastAllAreVisitedAgainOnceEach) {
  const auto domain = collected(3 * kTrials);
  std::vector<std::string> first, second;
  for (int k = 0; k < kTrials; ++k) {
    first.push_back(domain.trials[static_cast<size_t>(kTrials + k)].strategy.id);
    second.push_back(domain.trials[static_cast<size_t>(2 * kTrials + k)].strategy.id);
    EXPECT_EQ(domain.trials[static_cast<size_t>(kTrials + k)].origin, "repeat");
  }
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), static_cast<size_t>(kTrials));
  EXPECT_EQ(std::multiset(first.begin(), first.end()), std::multiset(second.begin(), second.end()));
  EXPECT_NE(first, second);  // in another order
}

}  // namespace
}  // namespace entrain::tuner
