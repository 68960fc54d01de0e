// Bound, planner and local search against every shape of small random cases.
#include <gtest/gtest.h>

#include "entrain/base/quantile.h"
#include "entrain/planner/bound.h"
#include "entrain/planner/exhaustive_suite.h"
#include "entrain/planner/improve.h"
#include "entrain/planner/planner.h"

namespace entrain::planner {
namespace {

// Prices shapes by the timeline.
class TimelineJudge final : public simulator::Simulator {
 public:
  explicit TimelineJudge(const testing::Case& job) : job_(job) {}
  std::string name() const override { return "timeline"; }
  std::vector<double> score(std::span<const strategy::Strategy> strategies) const override {
    std::vector<double> scores;
    for (const auto& s : strategies) {
      scores.push_back(testing::Timeline(job_.graph, job_.cluster, *s.shape, job_.examples).period());
    }
    return scores;
  }

 private:
  const testing::Case& job_;
};

TEST(Exhaustive, NoShapeBeatsTheBoundAndThePlannerIsSeldomFarFromTheBest) {
  std::mt19937_64 rng(18);
  std::vector<double> over_bound, planned, improved;
  for (int i = 0; i < 200; ++i) {
    const testing::Case job = testing::random_case(rng);
    const Overheads none{1, 0, 0};
    std::vector<strategy::Shape> starts;
    PlanOptions options;
    options.overheads = none;
    options.most = 20;
    for (auto& c : plan_shapes(job.graph, job.cluster, job.examples, options)) starts.push_back(c.shape);
    const Estimator estimator(job.graph, job.cluster, job.examples, {}, none);
    const TimelineJudge judge(job);
    const auto as_it_is = [](const strategy::Shape&) { return strategy::Strategy{}; };
    ImproveOptions search;
    search.batch = 15;
    search.evaluations = static_cast<int>(starts.size());
    const double of_starts = improve(estimator, starts, judge, as_it_is, search).front().score;
    search.evaluations = 150;
    const double of_search = improve(estimator, starts, judge, as_it_is, search).front().score;

    const double best = testing::Exhaustive(job.graph, job.cluster, job.examples).best(of_search);
    const Bound bound = lower_bound(job.graph, job.cluster, job.examples);
    ASSERT_LE(bound.seconds, best * (1 + 1e-9)) << "case " << i;
    over_bound.push_back(best / bound.seconds);
    planned.push_back(of_starts / best);
    improved.push_back(of_search / best);
  }
  const auto report = [&](const char* what, const std::vector<double>& ratios) {
    fmt::print("{}: median {:.3f}, 90th percentile {:.3f}, most {:.3f}\n", what, median(ratios),
               quantile(ratios, 0.9), *std::max_element(ratios.begin(), ratios.end()));
  };
  report("best / bound", over_bound);
  report("planned / best", planned);
  report("improved / best", improved);
  EXPECT_LE(median(over_bound), 1.3);
  EXPECT_LE(median(planned), 1.1);
  EXPECT_LE(median(improved), 1.02);
}

TEST(Exhaustive, NoShapeThatSearchFindsOnLargerJobsBeatsTheBound) {
  std::mt19937_64 rng(5);
  const auto between = [&](double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<>(0, 1)(rng));
  };
  std::vector<double> ratios;
  for (int i = 0; i < 12; ++i) {
    std::vector<testing::LayerSpec> layers;
    for (int l = 0; l < 6; ++l) {
      const double forward = between(0.3, 3);
      layers.push_back({forward, 2 * forward, 4 * static_cast<int64_t>(between(1, 3000)),
                        static_cast<int64_t>(between(1, 300)), 0});
    }
    std::vector<testing::HostSpec> specs;
    for (int h = 0; h < 4; ++h)
      specs.push_back({1 + static_cast<int>(rng() % 2), between(0.5, 1), between(30, 3000)});
    const testing::Case job{testing::chain(layers), testing::hosts(specs), 10};
    const Overheads none{1, 0, 0};
    PlanOptions options;
    options.overheads = none;
    options.most = 10;
    std::vector<strategy::Shape> starts;
    for (auto& c : plan_shapes(job.graph, job.cluster, job.examples, options)) starts.push_back(c.shape);
    const Estimator estimator(job.graph, job.cluster, job.examples, {}, none);
    ImproveOptions search;
    search.evaluations = 40;
    search.batch = 20;
    const auto as_it_is = [](const strategy::Shape&) { return strategy::Strategy{}; };
    const double best = improve(estimator, starts, TimelineJudge(job), as_it_is, search).front().score;
    const double bound = lower_bound(job.graph, job.cluster, job.examples).seconds;
    ASSERT_LE(bound, best * (1 + 1e-9)) << "case " << i;
    ratios.push_back(best / bound);
  }
  fmt::print("best found / bound: median {:.3f}, most {:.3f}\n", median(ratios),
             *std::max_element(ratios.begin(), ratios.end()));
}

}  // namespace
}  // namespace entrain::planner
