#include <gmock/gmock.h>
#include <unistd.h>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/simulator/analytic/published_terms.h"
#include "entrain/simulator/learned/registry.h"
#include "entrain/simulator/ranking.h"
#include "entrain/simulator/testing.h"

namespace entrain::simulator {
namespace {

using testing::lesson_of;

// The published model itself: something every ranker's inputs speak of.
testing::Truth published_truth(const graph::Graph& g, const cluster::Cluster& c) {
  return [terms = std::make_shared<PublishedSimulator>(g, c, PublishedSimulator::Total::kSum)](
             const strategy::Strategy& s) { return 0.01 + terms->score(std::span(&s, 1)).front(); };
}

struct RankersTest : ::testing::TestWithParam<std::string> {
  RankersTest() {
    for (const auto* trial : test.trials) {
      asked.push_back(trial->strategy);
      seconds.push_back(trial->step_s());
    }
  }
  ~RankersTest() override { std::filesystem::remove(path); }

  std::unique_ptr<Ranker> taught(uint64_t seed, int epochs) const {
    auto ranker = make_ranker(GetParam());
    ranker->learn({lesson_of(domain, 0, 150)}, {lesson_of(domain, 150, 180)},
                  {.epochs = epochs, .learning_rate = 3e-3, .seed = seed});
    return ranker;
  }

  dataset::Domain domain = testing::make_domain("lab:1x10gbit+2x1gbit", 5, 240, 1, published_truth);
  Lesson test = lesson_of(domain, 180, 240);
  std::vector<strategy::Strategy> asked;
  std::vector<double> seconds;
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("entrain-ranker-{}", ::getpid());
};

TEST_P(RankersTest, LearnsAKnownFunctionAndScoresTheSameOnceLoaded) {
  const auto ranker = taught(1, 25);
  const auto scores = ranker->score(test, asked);
  EXPECT_GT(pair_accuracy(scores, seconds), 0.8);
  ranker->save(path);
  const auto loaded = load_ranker(path);
  EXPECT_EQ(loaded->name(), GetParam());
  EXPECT_EQ(loaded->score(test, asked), scores);
}

TEST_P(RankersTest, SameSeedSameRanker) {
  EXPECT_EQ(taught(3, 2)->score(test, asked), taught(3, 2)->score(test, asked));
}

TEST_P(RankersTest, WithoutTrialsItStillScores) {
  const auto ranker = make_ranker(GetParam());
  ranker->learn({}, {}, {.epochs = 1});
  EXPECT_EQ(ranker->score(test, asked).size(), asked.size());
}

TEST_P(RankersTest, OtherFeaturesAreRefused) {
  make_ranker(GetParam())->save(path);
  std::string content = read_file(path);
  const std::string version = "\"version\":";
  const size_t at = content.find(version);
  ASSERT_NE(at, std::string::npos);
  const std::string real(1, content[at + version.size()]);
  content[at + version.size()] = '7';
  write_file_atomically(path, content);
  try {
    load_ranker(path);
    FAIL() << "loaded";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), ::testing::AllOf(::testing::HasSubstr("feature version 7, wanted " + real),
                                           ::testing::Not(::testing::HasSubstr("\n"))));
  }
}

INSTANTIATE_TEST_SUITE_P(Each, RankersTest, ::testing::Values("linear", "rnn", "gat", "boosted"),
                         [](const auto& tested) { return tested.param; });

TEST(Registry, UnknownNamesAndFilesAreRefused) {
  EXPECT_THROW(make_ranker("oracle"), InputError);
  EXPECT_THROW(load_ranker("/nonexistent"), InputError);
}

}  // namespace
}  // namespace entrain::simulator
