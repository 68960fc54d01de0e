// Embedding, correction, batch, money.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "entrain/strategy/builders/registry.h"
#include "entrain/tuner/batch.h"
#include "entrain/tuner/correction.h"
#include "entrain/tuner/embedding.h"
#include "entrain/tuner/money.h"
#include "entrain/tuner/testing.h"

namespace entrain::tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Embedding, LikeStrategiesPointTheSameWay) {
  const dataset::Domain d = testing::domain();
  const Embedder embedder(d.graph, d.cluster);
  const auto vector = [&](const char* name) {
    return embedder.embed(strategy::build(name, d.graph, d.cluster));
  };
  EXPECT_NEAR(similarity(vector("ps"), vector("ps")), 1, 1e-12);
  EXPECT_GT(similarity(vector("allreduce"), vector("ddp")), similarity(vector("allreduce"), vector("ps")));
  EXPECT_GT(similarity(vector("byteps"), vector("partitioned-ps")),
            similarity(vector("byteps"), vector("ddp")));
  EXPECT_NE(embedder.niche(vector("ps")), embedder.niche(vector("allreduce")));
  EXPECT_EQ(similarity(Vector(3), Vector(3)), 0);
  EXPECT_EQ(similarity({1, 0, 0}, Vector(3)), 0);
  EXPECT_EQ(similarity(Vector(3), {1, 0, 0}), 0);
  for (const std::string& name : strategy::names()) {
    for (const double x : vector(name.c_str())) {
      EXPECT_GE(x, 0) << name;
      EXPECT_LE(x, 1 + 1e-9) << name;
    }
  }
}

TEST(Fingerprint, TellsStrategiesApartButNotTheirNames) {
  const dataset::Domain d = testing::domain();
  const strategy::Sampler sampler(d.graph, d.cluster);
  strategy::Rng rng(1);
  std::map<uint64_t, strategy::Strategy> seen;
  for (int i = 0; i < 2000; ++i) {
    strategy::Strategy s = sampler.sample(rng);
    const uint64_t key = fingerprint(s);
    const auto [place, added] = seen.try_emplace(key, s);
    if (!added) {
      EXPECT_EQ(place->second, s);
    }
    s.id = "another";
    EXPECT_EQ(fingerprint(s), key);
  }
  EXPECT_GT(seen.size(), 1500u);
}

TEST(Embedding, EntriesAreSharesOnHostsOfSeveralRanksAndWithAnyPriority) {
  const dataset::Domain d = testing::domain("lab:2x1gbit/ranks=2");
  const Embedder embedder(d.graph, d.cluster);
  for (const std::string& name : strategy::names()) {
    strategy::Strategy s = strategy::build(name, d.graph, d.cluster);
    for (auto& config : s.variables) {
      for (auto& part : config.parts) part.priority = 1000;
    }
    for (const double x : embedder.embed(s)) {
      EXPECT_GE(x, 0) << name;
      EXPECT_LE(x, 1 + 1e-9) << name;
    }
  }
}

// The two entries before the hosts': the share of what is cut, and the number of messages.
TEST(Embedding, CountsMessagesAndWhatIsCut) {
  const dataset::Domain d = testing::domain();
  const Embedder embedder(d.graph, d.cluster);
  const auto entry = [&](const char* name, size_t before_hosts) {
    return embedder.embed(
        strategy::build(name, d.graph, d.cluster))[embedder.size() - d.cluster.hosts.size() - before_hosts];
  };
  EXPECT_DOUBLE_EQ(entry("ps", 1), std::log2(1 + 8) / 12);  // a message per variable
  EXPECT_LT(entry("allreduce", 1), entry("ps", 1));
  EXPECT_GT(entry("partitioned-ps", 1), entry("ps", 1));
  EXPECT_EQ(entry("ps", 2), 0);
  EXPECT_GT(entry("partitioned-ps", 2), 0.5);
}

TEST(Fingerprint, TellsSharesOfTopKApart) {
  const dataset::Domain d = testing::domain();
  strategy::AllReduce top;
  top.compressor = strategy::Compressor::kTopK;
  std::set<uint64_t> seen;
  for (const double share : {0.01, 0.02, 0.1}) {
    top.share = share;
    strategy::Strategy s;
    s.variables.push_back({"conv1", {}, {{top, {}}}});
    seen.insert(fingerprint(s));
  }
  EXPECT_EQ(seen.size(), 3U);
}

TEST(Fingerprint, TellsEveryPriorityFromNone) {
  std::set<uint64_t> seen;
  for (const std::optional<int> priority : {std::optional<int>(), {0}, {1}, {2}}) {
    strategy::Strategy s;
    s.variables.push_back({"conv1", {}, {{strategy::AllReduce{}, priority}}});
    seen.insert(fingerprint(s));
  }
  EXPECT_EQ(seen.size(), 4U);
}

TEST(Correction, WithoutObservationsBelievesTheSimulator) {
  const Correction none;
  EXPECT_EQ(none.mean({0.5, 0.5}, 1.25), 1.25);
  EXPECT_EQ(none.predict({0.5, 0.5}, 1.25).deviation, 0);
}

// By hand: the weight of a constant, w ~ N(0, 1.5^2), after one trial that took e^3 times as long as
// simulated. A surprise as big is likeliest under the largest noise of the grid, 0.16.
TEST(Correction, OfOneTrialIsTheHeadersFormula) {
  const Correction correction({{{}, 0.5, 3.5}});
  const double prior = 1.5 * 1.5, noise = 0.16 * 0.16;
  EXPECT_NEAR(correction.mean({}, 0.5), 0.5 + 3 * prior / (prior + noise), 1e-9);
  EXPECT_NEAR(correction.predict({}, 0.5).deviation, std::sqrt(1 / (1 / prior + 1 / noise)), 1e-9);
}

// The simulator thinks the second kind a third faster than it is, and all of it half as long.
TEST(Correction, LearnsWhereTheSimulatorIsWrong) {
  const auto measured = [](double share, double simulated) { return simulated + std::log(2) + 0.4 * share; };
  std::vector<Observation> observations;
  strategy::Rng rng(3);
  for (int i = 0; i < 40; ++i) {
    const double share = strategy::sampling::unit(rng), simulated = strategy::sampling::unit(rng);
    const double noise = 0.02 * (strategy::sampling::unit(rng) - 0.5);
    observations.push_back({{1 - share, share}, simulated, measured(share, simulated) + noise});
  }
  const Correction correction(observations);
  for (const double share : {0.0, 0.3, 1.0}) {
    EXPECT_NEAR(correction.mean({1 - share, share}, 0.5), measured(share, 0.5), 0.03);
    EXPECT_EQ(correction.predict({1 - share, share}, 0.5).mean, correction.mean({1 - share, share}, 0.5));
  }
}

TEST(Correction, IsSurerNearWhatItHasSeen) {
  std::vector<Observation> observations;
  for (int i = 0; i < 10; ++i) observations.push_back({{1, 0}, 0.1 * i, 0.1 * i + 0.2});
  const Correction correction(observations);
  EXPECT_LT(correction.predict({1, 0}, 0.5).deviation, correction.predict({0, 1}, 0.5).deviation);
}

TEST(Batch, TakesTheBestThenWhatIsUnlikeIt) {
  const Vector a = {1, 0}, b = {0, 1};
  const std::vector<Scored> candidates = {{1.02, 0, &a}, {1.00, 0, &a}, {1.03, 0, &b}, {1.10, 0, &a}};
  EXPECT_THAT(pick_batch(candidates, {.size = 2, .similarity_weight = 2}), ElementsAre(1, 2));
  EXPECT_THAT(pick_batch(candidates, {.size = 3, .similarity_weight = 0}), ElementsAre(1, 0, 2));
  EXPECT_THAT(pick_batch(candidates, {.size = 9, .similarity_weight = 0}), ElementsAre(1, 0, 2, 3));
  EXPECT_THAT(pick_batch({}, {}), IsEmpty());
}

TEST(Batch, LaterPicksMayBeUncertainOnes) {
  const Vector a = {1, 0};
  const std::vector<Scored> candidates = {{1.00, 0, &a}, {1.01, 0, &a}, {1.05, 0.2, &a}};
  EXPECT_THAT(pick_batch(candidates, {.size = 2, .similarity_weight = 0, .optimism = 1}), ElementsAre(0, 2));
}

// The seed's example: BERT-large, 2 M iterations on four hosts, 1.2x found in 50 trials of 50 iterations.
TEST(Money, IsTheSeedsExample) {
  const double price = 4 * 3.912;
  EXPECT_NEAR(cost(2e6, 1.56, price), 13561.6, 0.05);
  const Saving s = saving(2e6, 1.56, 1.2, 2500, price);
  EXPECT_NEAR(s.before, 13561.6, 0.05);
  EXPECT_NEAR(s.net(), 2243, 1);
}

TEST(Money, AddsUpTheHostsPrices) {
  cluster::Cluster c = cluster::parse("lab:3x1gbit");
  EXPECT_EQ(price_per_hour(c), 0);
  c.hosts[0].price_per_hour = 2;
  c.hosts[2].price_per_hour = 0.5;
  EXPECT_DOUBLE_EQ(price_per_hour(c), 2.5);
}

}  // namespace
}  // namespace entrain::tuner
