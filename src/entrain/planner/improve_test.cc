#include "entrain/planner/improve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "entrain/planner/shape_moves.h"
#include "entrain/planner/testing.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::planner {
namespace {

using strategy::Shape;
using strategy::Strategy;
using strategy::to_text;

const Overheads kIdeal{1, 0, 0};

// The timeline as judge; writes down what it was asked.
class Judge final : public simulator::Simulator {
 public:
  explicit Judge(const Estimator& estimator) : estimator_(estimator) {}
  std::string name() const override { return "timeline"; }
  std::vector<double> score(std::span<const Strategy> strategies) const override {
    batches.push_back(static_cast<int>(strategies.size()));
    std::vector<double> scores;
    for (const Strategy& s : strategies) {
      shapes.push_back(*s.shape);
      ids.insert(s.id);
      const bool refused = refuses && refuses(*s.shape);
      if (equal) {
        scores.push_back(1);
        continue;
      }
      scores.push_back(refused ? std::numeric_limits<double>::infinity()
                               : testing::Timeline(estimator_.graph(), estimator_.cluster(), *s.shape,
                                                   estimator_.examples())
                                     .period());
    }
    return scores;
  }
  std::function<bool(const Shape&)> refuses;
  bool equal = false;  // all shapes take as long
  mutable std::vector<int> batches;
  mutable std::vector<Shape> shapes;
  mutable std::set<std::string> ids;

 private:
  const Estimator& estimator_;
};

Strategy named(const Shape&) {
  Strategy s;
  s.id = "ring";
  return s;
}

class Improve : public ::testing::Test {
 protected:
  graph::Graph graph =
      testing::chain({{2, 4, 40, 400}, {2, 4, 40, 200}, {2, 4, 40, 20}, {0.1, 0.2, 1000000, 4}});
  cluster::Cluster cluster = testing::hosts({{1, 1, 2000}, {1, 1, 2000}, {1, 1, 2000}});
  Estimator estimator{graph, cluster, 24, {}, kIdeal};
  Judge judge{estimator};
  std::vector<Shape> one_rank = {strategy::data_parallel(4, {0})};
  ImproveOptions options{.seed = 3, .evaluations = 400, .batch = 20, .beam = 6, .patience = 10};
};

TEST_F(Improve, FindsThatALargeLastLayerStaysOnOneOfTheRanksThatShareTheOthers) {
  const auto found = improve(estimator, one_rank, judge, named, options);
  // One rank alone takes 24 x 18.3; three share 24 x 18 / 3 at best.
  EXPECT_LT(found[0].score, 24 * 18.3 / 3 * 1.15) << to_text(found[0].shape);
  EXPECT_EQ(found[0].shape.holders_of(3).size(), 1u);
  EXPECT_EQ(found[0].shape.ranks().size(), 3u);
}

TEST_F(Improve, IsNeverWorseThanItsStartsAndSorted) {
  const std::vector<Shape> starts = {one_rank[0], strategy::data_parallel(4, {0, 1, 2})};
  options.evaluations = 40;
  const auto found = improve(estimator, starts, judge, named, options);
  for (const Shape& s : starts) {
    EXPECT_LE(found[0].score, testing::Timeline(graph, cluster, s, 24).period());
  }
  EXPECT_LE(found.size(), 6u);
  for (size_t i = 1; i < found.size(); ++i) EXPECT_LE(found[i - 1].score, found[i].score);
}

TEST_F(Improve, AsksInBatchesAndNoMoreThanItMay) {
  options.evaluations = 70;
  improve(estimator, one_rank, judge, named, options);
  EXPECT_LE(judge.shapes.size(), 70u);
  EXPECT_GE(judge.shapes.size(), 60u);
  for (const int batch : judge.batches) EXPECT_LE(batch, 20);
  std::set<std::string> texts;
  for (const Shape& s : judge.shapes) EXPECT_TRUE(texts.insert(to_text(s)).second) << "asked twice";
}

TEST_F(Improve, AsksForAllThatItMay) {
  for (const int evaluations : {1, 2, 30}) {
    judge.shapes.clear();
    options.evaluations = evaluations;
    improve(estimator, one_rank, judge, named, options);
    EXPECT_EQ(judge.shapes.size(), static_cast<size_t>(evaluations));
  }
}

TEST_F(Improve, EndsAfterBatchesWithoutABetterShape) {
  judge.equal = true;
  options.patience = 3;
  improve(estimator, one_rank, judge, named, options);
  EXPECT_EQ(judge.batches, (std::vector<int>{1, 20, 20, 20}));
}

TEST_F(Improve, FollowsFromItsSeed) {
  const auto first = improve(estimator, one_rank, judge, named, options);
  const auto asked = judge.shapes;
  judge.shapes.clear();
  const auto again = improve(estimator, one_rank, judge, named, options);
  EXPECT_EQ(asked, judge.shapes);
  EXPECT_EQ(first[0].shape, again[0].shape);
  judge.shapes.clear();
  options.seed = 4;
  improve(estimator, one_rank, judge, named, options);
  EXPECT_NE(asked, judge.shapes);
}

TEST_F(Improve, AsksWithTheSynchronizationItWasGiven) {
  options.evaluations = 10;
  improve(estimator, one_rank, judge, named, options);
  EXPECT_EQ(judge.ids, std::set<std::string>{"ring"});
}

TEST_F(Improve, NeverReturnsWhatTheJudgeRefuses) {
  judge.refuses = [](const Shape& s) { return s.holds(1); };
  for (const auto& found : improve(estimator, one_rank, judge, named, options)) {
    EXPECT_FALSE(found.shape.holds(1));
  }
  judge.refuses = [](const Shape&) { return true; };
  EXPECT_TRUE(improve(estimator, one_rank, judge, named, options).empty());
}

TEST_F(Improve, NeverAsksForWhatDoesNotFit) {
  const Estimator tight(graph, cluster, 24, {{1e7, 2e6, 2e6}, 1}, kIdeal);  // the last layer: 3e6
  improve(tight, one_rank, judge, named, options);
  EXPECT_GT(judge.shapes.size(), 20u);
  for (const Shape& s : judge.shapes) EXPECT_EQ(s.holders_of(3), std::vector<int>{0});
}

TEST_F(Improve, ChangesReachEveryKindOfShapeAndStayValid) {
  Rng rng(1);
  std::set<size_t> cells, replicas;
  std::set<std::string> schedules;
  std::set<pipeline::Remat> remats;
  bool uneven = false, co_located = false;
  Shape shape = one_rank[0];
  for (int i = 0; i < 3000; ++i) {
    const auto changed = change(estimator, shape, rng);
    if (!changed) continue;
    shape = *changed;
    ASSERT_NO_THROW(strategy::validate(shape, 4, cluster, 24)) << to_text(shape);
    cells.insert(shape.cells.size());
    replicas.insert(static_cast<size_t>(shape.most_replicas()));
    schedules.insert(shape.schedule);
    remats.insert(shape.remat);
    size_t held = 0;
    for (const auto& cell : shape.cells) {
      uneven = uneven || !cell.shares.empty();
      held += cell.ranks.size();
    }
    co_located = co_located || held > shape.ranks().size();
  }
  EXPECT_EQ(cells, (std::set<size_t>{1, 2, 3, 4}));
  EXPECT_EQ(replicas, (std::set<size_t>{1, 2, 3}));
  EXPECT_EQ(schedules.size(), 3u);
  EXPECT_EQ(remats.size(), 3u);
  EXPECT_TRUE(uneven);
  EXPECT_TRUE(co_located);
}

}  // namespace
}  // namespace entrain::planner
