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
    const double best = testing::Exhaustive(job.graph, job.cluster, job.examples).best();
    const Bound bound = lower_bound(job.graph, job.cluster, job.examples);
    ASSERT_LE(bound.seconds, best * (1 + 1e-9)) << "case " << i;
    over_bound.push_back(best / bound.seconds);

    const Overheads none{1, 0, 0};
    std::vector<strategy::Shape> starts;
    PlanOptions options;
    options.overheads = none;
    options.most = 20;
    for (auto& c : plan_shapes(job.graph, job.cluster, job.examples, options)) starts.push_back(c.shape);
    const Estimator estimator(job.graph, job.cluster, job.examples, {}, none);
    const TimelineJudge judge(job);
    const auto as_it_is = [](const strategy::Shape&) { return strategy::Strategy{}; };
    ImproveOptions only_starts;
    only_starts.evaluations = static_cast<int>(starts.size());
    planned.push_back(improve(estimator, starts, judge, as_it_is, only_starts).front().score / best);
    ImproveOptions search;
    search.evaluations = 150;
    search.batch = 15;
    improved.push_back(improve(estimator, starts, judge, as_it_is, search).front().score / best);
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

}  // namespace
}  // namespace entrain::planner
