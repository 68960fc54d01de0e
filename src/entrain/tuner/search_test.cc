// What a search proposes: new, valid, the same for the same trials, and better the more it was told.
#include "entrain/tuner/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/base/error.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/validate.h"
#include "entrain/tuner/testing.h"

namespace entrain::tuner {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

SearchOptions options(Mode mode, uint64_t seed = 1) {
  SearchOptions o;
  o.mode = mode;
  o.seed = seed;
  o.evaluations = 600;
  o.population = 60;
  o.proposals = 300;
  return o;
}

dataset::Trial trial(const strategy::Strategy& s, std::vector<double> seconds,
                     const std::string& origin = "random") {
  dataset::Trial t;
  t.strategy = s;
  t.seconds = std::move(seconds);
  t.origin = origin;
  return t;
}

class SearchInMode : public ::testing::TestWithParam<Mode> {
 protected:
  dataset::Domain d = testing::domain();
  testing::WrongSimulator simulator{d};
  testing::FakeRanker ranker{d};
  testing::FakeRunner runner{d};
  Search make(uint64_t seed = 1) {
    Guide guide;
    guide.simulator = &simulator;
    if (GetParam() == Mode::kPublished) guide.ranker = &ranker;
    return {d.graph, d.cluster, guide, options(GetParam(), seed)};
  }
  // Asks, runs and tells; returns all proposals.
  std::vector<strategy::Strategy> rounds(Search& search, int count) {
    std::vector<strategy::Strategy> all;
    for (int i = 0; i < count; ++i) {
      for (const Proposal& p : search.ask()) {
        all.push_back(p.strategy);
        search.tell(trial(p.strategy, runner.run(p.strategy, 1).seconds, p.origin));
      }
    }
    return all;
  }
};
INSTANTIATE_TEST_SUITE_P(, SearchInMode,
                         ::testing::Values(Mode::kOwn, Mode::kPublished, Mode::kRandom,
                                           Mode::kRandomPublished),
                         [](const auto& mode) {
                           std::string name(to_string(mode.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(SearchInMode, ProposesNewStrategiesThatCanBeRun) {
  Search search = make();
  std::set<uint64_t> seen;
  for (const std::string& name : strategy::names()) {
    const strategy::Strategy s = strategy::build(name, d.graph, d.cluster);
    search.tell(trial(s, {1.0}, "builder"));
    EXPECT_TRUE(search.tried(s));
  }
  for (int round = 0; round < 6; ++round) {
    const std::vector<Proposal> batch = search.ask();
    EXPECT_EQ(batch.size(), 4u);
    for (const Proposal& p : batch) {
      EXPECT_NO_THROW(validate(p.strategy, d.graph, d.cluster));
      EXPECT_FALSE(search.tried(p.strategy));
      EXPECT_TRUE(seen.insert(fingerprint(p.strategy)).second);
      dataset::Trial t = trial(p.strategy, {1.0});
      if (round % 2) t.status = dataset::Status::kFailed;  // also these are not proposed again
      search.tell(t);
    }
  }
}

TEST_P(SearchInMode, FollowsFromSeedAndTrials) {
  Search first = make(), second = make(), other = make(2);
  const auto a = rounds(first, 4);
  runner = testing::FakeRunner(d);
  EXPECT_EQ(a, rounds(second, 4));
  runner = testing::FakeRunner(d);
  EXPECT_NE(a, rounds(other, 4));

  // One that is told the log goes on as the one that wrote it.
  runner = testing::FakeRunner(d);
  Search told = make();
  for (const strategy::Strategy& s : a) told.tell(trial(s, runner.run(s, 1).seconds));
  const auto next = first.ask(), also = told.ask();
  ASSERT_EQ(next.size(), also.size());
  for (size_t i = 0; i < next.size(); ++i) EXPECT_EQ(next[i].strategy, also[i].strategy);
}

TEST(Search, OwnModeLearnsThatTheSimulatorIsWrong) {
  const dataset::Domain d = testing::domain();
  const testing::WrongSimulator simulator(d);
  const testing::Formula truth = testing::truth(d);
  testing::FakeRunner runner(d);
  Guide guide;
  guide.simulator = &simulator;
  Search search(d.graph, d.cluster, guide, options(Mode::kOwn));
  double first = 0, last = 0;
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds; ++round) {
    double mean = 0;
    const auto batch = search.ask();
    for (const Proposal& p : batch) {
      mean += truth(p.strategy) / static_cast<double>(batch.size());
      search.tell(trial(p.strategy, runner.run(p.strategy, 1).seconds, p.origin));
    }
    (round == 0 ? first : last) = mean;
  }
  EXPECT_LT(last, first);
}

TEST(Search, PublishedModeTrainsItsRankerAfterEachBatch) {
  const dataset::Domain d = testing::domain();
  testing::FakeRanker ranker(d);
  testing::FakeRunner runner(d);
  Guide guide;
  guide.ranker = &ranker;
  Search search(d.graph, d.cluster, guide, options(Mode::kPublished));
  std::vector<Proposal> batch;
  for (int round = 0; round < 5; ++round) {
    batch = search.ask();
    for (const Proposal& p : batch) {
      EXPECT_EQ(p.origin, "random");
      dataset::Trial t = trial(p.strategy, runner.run(p.strategy, 1).seconds);
      if (round == 0) t.status = dataset::Status::kFailed;  // teaches nothing
      search.tell(t);
    }
  }
  // Eight ok trials are needed: rounds 1 and 2 give them, so rounds 3 and 4 begin with a lesson.
  EXPECT_THAT(ranker.lessons, ElementsAre(8, 12));
  EXPECT_THAT(ranker.scored, Each(::testing::Ge(290)));
}

TEST(Search, OwnModeTakesASecondOpinion) {
  const dataset::Domain d = testing::domain();
  const testing::WrongSimulator simulator(d);
  testing::FakeRanker ranker(d);
  Guide guide;
  guide.simulator = &simulator;
  guide.ranker = &ranker;
  guide.ranker_ready = true;
  Search search(d.graph, d.cluster, guide, options(Mode::kOwn));
  EXPECT_EQ(search.ask().size(), 4u);
  EXPECT_TRUE(ranker.lessons.empty());  // trained elsewhere: used as it is
  EXPECT_EQ(ranker.scored.size(), 1u);
}

// A ranker that measures in other units than its neighbour.
class ScaledRanker final : public simulator::Ranker {
 public:
  ScaledRanker(const dataset::Domain& d, double scale) : formula_(testing::truth(d)), scale_(scale) {}
  std::string name() const override { return "scaled"; }
  void learn(const std::vector<simulator::Lesson>&, const std::vector<simulator::Lesson>&,
             const simulator::LearnOptions&) override {}
  std::vector<double> score(const simulator::Lesson&,
                            std::span<const strategy::Strategy> strategies) const override {
    std::vector<double> scores;
    for (const strategy::Strategy& s : strategies) scores.push_back(100 - scale_ * formula_(s));
    return scores;
  }
  void save(const std::filesystem::path&) const override {}

 private:
  testing::Formula formula_;
  double scale_;
};

TEST(Search, OwnModeProposesWhatItsSimulatorThinksFast) {
  const dataset::Domain d = testing::domain();
  const testing::WrongSimulator simulator(d);
  Guide guide;
  guide.simulator = &simulator;
  const auto worst_of = [&](Mode mode) {
    Search search(d.graph, d.cluster, guide, options(mode));
    std::vector<strategy::Strategy> proposed;
    for (const Proposal& p : search.ask()) proposed.push_back(p.strategy);
    const auto scores = simulator.score(proposed);
    return *std::max_element(scores.begin(), scores.end());
  };
  EXPECT_LT(worst_of(Mode::kOwn), 0.8 * worst_of(Mode::kRandom));
}

TEST(Search, ASecondOpinionsUnitMeansNothing) {
  const dataset::Domain d = testing::domain();
  const testing::WrongSimulator simulator(d);
  std::vector<std::vector<strategy::Strategy>> proposed;
  for (const double scale : {1.0, 1024.0}) {
    ScaledRanker ranker(d, scale);
    Guide guide;
    guide.simulator = &simulator;
    guide.ranker = &ranker;
    guide.ranker_ready = true;
    Search search(d.graph, d.cluster, guide, options(Mode::kOwn));
    proposed.emplace_back();
    for (const Proposal& p : search.ask()) proposed.back().push_back(p.strategy);
  }
  EXPECT_EQ(proposed[0], proposed[1]);
}

// AutoSync's space has no priorities and no topologies.
TEST(Search, PublishedModesStayInThePublishedSpace) {
  const dataset::Domain d = testing::domain();
  const testing::WrongSimulator simulator(d);
  for (const Mode mode : {Mode::kOwn, Mode::kPublished, Mode::kRandom, Mode::kRandomPublished}) {
    testing::FakeRanker ranker(d);
    Guide guide;
    guide.simulator = &simulator;
    if (mode == Mode::kPublished) guide.ranker = &ranker;
    Search search(d.graph, d.cluster, guide, options(mode));
    int wider = 0;
    for (int round = 0; round < 4; ++round) {
      for (const Proposal& p : search.ask()) {
        for (const auto& config : p.strategy.variables) {
          for (const auto& part : config.parts) {
            const auto* reduce = std::get_if<strategy::AllReduce>(&part.synchronizer);
            wider += part.priority || (reduce != nullptr && reduce->topology != strategy::Topology::kAuto);
          }
        }
        search.tell(trial(p.strategy, {1.0}, p.origin));
      }
    }
    const bool published = mode == Mode::kPublished || mode == Mode::kRandomPublished;
    EXPECT_EQ(wider == 0, published) << to_string(mode);
  }
}

TEST(Search, PublishedModeWithoutARankerIsRefused) {
  const dataset::Domain d = testing::domain();
  EXPECT_THROW(Search(d.graph, d.cluster, {}, options(Mode::kPublished)), Error);
}

TEST(Search, EndsWhereTheSpaceIsSmall) {
  dataset::Domain d = testing::domain("lab:1x1gbit");
  d.graph.variables.resize(2);
  for (graph::Variable& v : d.graph.variables) v.shape.clear();  // scalars cannot be cut
  for (const Mode mode : {Mode::kOwn, Mode::kRandom}) {
    Search search(d.graph, d.cluster, {}, options(mode));
    size_t total = 0;
    for (int i = 0; i < 400; ++i) {
      const auto batch = search.ask();
      if (batch.empty()) break;
      total += batch.size();
      for (const Proposal& p : batch) search.tell(trial(p.strategy, {1.0}));
    }
    EXPECT_GT(total, 0u);
    EXPECT_LT(total, 1600u);
  }
}

// A remade simulator judges what was told before, too; the lessons are those that are ok.
TEST(Search, OwnModeRemakesItsSimulator) {
  const dataset::Domain d = testing::domain();
  testing::FakeRunner runner(d);
  std::vector<size_t> made_from;
  Guide guide;
  guide.remake = [&](const std::vector<const dataset::Trial*>& trials) {
    made_from.push_back(trials.size());
    return std::make_shared<const testing::WrongSimulator>(d);
  };
  Search search(d.graph, d.cluster, guide, options(Mode::kOwn));
  for (int round = 0; round < 3; ++round) {
    for (const Proposal& p : search.ask()) {
      search.tell(trial(p.strategy, runner.run(p.strategy, 1).seconds, p.origin));
    }
  }
  EXPECT_THAT(made_from, ElementsAre(4, 8));  // there is nothing to make the first of
}

TEST(Mode, IsChosenByName) {
  for (const Mode mode : {Mode::kOwn, Mode::kPublished, Mode::kRandom, Mode::kRandomPublished}) {
    EXPECT_EQ(mode_from(to_string(mode)), mode);
  }
  EXPECT_THROW(mode_from("annealing"), InputError);
}

}  // namespace
}  // namespace entrain::tuner
