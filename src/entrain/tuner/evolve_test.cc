#include "entrain/tuner/evolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "entrain/strategy/builders/registry.h"
#include "entrain/tuner/testing.h"

namespace entrain::tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Judges by a hash, so that any child may be better than its parents, and writes down every brood.
class Evolve : public ::testing::Test {
 protected:
  std::vector<Candidate> run(const EvolveOptions& options, int niches = 1000) {
    strategy::Rng rng(4);
    const auto judge = [&, niches](std::vector<Candidate>& brood) {
      broods.push_back(brood.size());
      origins.emplace_back();
      for (Candidate& c : brood) {
        ++origins.back()[c.origin];
        c.niche = static_cast<int>(c.key % static_cast<uint64_t>(niches));
        c.score = static_cast<double>(c.key >> 8 & 0xffff);
        best = std::min(best, c.score);
      }
    };
    return evolve(sampler, parents, known, judge, options, rng);
  }

  dataset::Domain d = testing::domain();
  strategy::Sampler sampler{d.graph, d.cluster};
  std::vector<strategy::Strategy> parents;
  std::unordered_set<uint64_t> known;
  std::vector<size_t> broods;
  std::vector<std::map<std::string, int>> origins;
  double best = 1e9;
};

TEST_F(Evolve, ReturnsTheBestOfAllThatWereJudgedBestFirst) {
  const auto last = run({.population = 16, .evaluations = 64});
  ASSERT_EQ(last.size(), 16U);
  EXPECT_EQ(last.front().score, best);
  for (size_t i = 1; i < last.size(); ++i) EXPECT_LE(last[i - 1].score, last[i].score);
}

TEST_F(Evolve, JudgesAsManyAsItMay) {
  run({.population = 16, .evaluations = 64, .fresh = 1});
  EXPECT_THAT(broods, ElementsAre(16, 16, 16, 16));
  broods.clear();
  run({.population = 16, .evaluations = 65, .fresh = 1});
  EXPECT_EQ(broods.size(), 5U);
}

TEST_F(Evolve, OneKindHoldsAnEighthOfThePopulation) {
  std::map<int, int> held;
  for (const Candidate& c : run({.population = 16, .evaluations = 160}, 3)) ++held[c.niche];
  EXPECT_THAT(held, ElementsAre(Pair(0, 2), Pair(1, 2), Pair(2, 2)));
}

TEST_F(Evolve, BeginsWithHalfFreshAndHalfChildrenOfWhatWasMeasured) {
  run({.population = 16, .evaluations = 16});
  EXPECT_THAT(origins[0], ElementsAre(Pair("random", 16)));
  for (const char* name : {"ps", "allreduce"}) {
    parents.push_back(sampler.canonical(strategy::build(name, d.graph, d.cluster)));
  }
  origins.clear();
  run({.population = 16, .evaluations = 16});
  EXPECT_EQ(origins[0]["random"], 8);
  EXPECT_GE(origins[0]["mutation"], 4);  // two may be alike
}

TEST_F(Evolve, SharesOfFreshOnesAndOfTwoParentsAreThoseAskedFor) {
  const auto only = [&](double fresh, double crossover) {
    origins.clear();
    run({.population = 16, .evaluations = 32, .fresh = fresh, .crossover = crossover});
    return origins[1].size() == 1 ? origins[1].begin()->first : "several";
  };
  EXPECT_EQ(only(1, 0), "random");
  EXPECT_EQ(only(0, 1), "crossover");
  EXPECT_EQ(only(0, 0), "mutation");
}

TEST_F(Evolve, NothingKnownIsReturned) {
  const auto first = run({.population = 16, .evaluations = 64});
  for (const Candidate& c : first) known.insert(c.key);
  for (const Candidate& c : run({.population = 16, .evaluations = 64})) EXPECT_EQ(known.count(c.key), 0U);
}

}  // namespace
}  // namespace entrain::tuner
