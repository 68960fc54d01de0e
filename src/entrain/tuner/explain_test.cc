// Hand-made strategies of two variables, where one can say by hand what explain must find.
#include "entrain/tuner/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/base/error.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/sampler/sampler.h"
#include "entrain/strategy/validate.h"
#include "entrain/tuner/testing.h"

namespace entrain::tuner {
namespace {

using strategy::AllReduce;
using strategy::ParameterServer;
using strategy::Strategy;
using ::testing::DoubleNear;

// 16 MB and 4 MB, on 4 hosts of 1 Gbit/s.
class TwoVariables : public ::testing::Test {
 protected:
  TwoVariables() : cluster_(cluster::parse("lab:4x1gbit")) {
    graph_.model = "two";
    graph::Variable big, small;
    big.name = "big";
    big.shape = {2000, 2000};
    big.ready_order = 1;
    small.name = "small";
    small.shape = {1000, 1000};
    for (auto* v : {&big, &small}) v->forward_s = v->backward_s = 0.001;
    graph_.variables = {big, small};
  }

  std::string host(int h) const { return cluster_.hosts[h].address; }

  Strategy make(strategy::Synchronizer big, strategy::Synchronizer small) const {
    Strategy s;
    s.id = "hand-made";
    s.variables = {{"big", {}, {{std::move(big), {}}}}, {"small", {}, {{std::move(small), {}}}}};
    strategy::validate(s, graph_, cluster_);
    return s;
  }

  graph::Graph graph_;
  cluster::Cluster cluster_;
};

const Worth* find(const Explanation& e, Aspect aspect) {
  for (const Worth& worth : e.worths) {
    if (worth.difference.aspect == aspect) return &worth;
  }
  return nullptr;
}

TEST_F(TwoVariables, SharesPlacementAndTheLinkThatBinds) {
  const Explanation e = explain(make(ParameterServer{host(2)}, AllReduce{}), graph_, cluster_);
  EXPECT_DOUBLE_EQ(e.parameter_server.share, 0.8);
  EXPECT_DOUBLE_EQ(e.all_reduce.share, 0.2);
  EXPECT_DOUBLE_EQ(e.all_gather.share, 0);
  EXPECT_DOUBLE_EQ(e.served[2].bytes, 16e6);
  EXPECT_DOUBLE_EQ(e.served[0].bytes, 0);
  EXPECT_EQ(e.patterns.whole, 2);
  EXPECT_EQ(e.patterns.all_reduce_alone.variables, 1);
  // The server receives 16 MB from 3 hosts and 2 * 3/4 of 4 MB: 54 MB, 432 ms; it sends as much.
  ASSERT_GE(e.links.size(), 8u);
  EXPECT_EQ(e.links[0].host, 2);
  EXPECT_EQ(e.links[1].host, 2);
  EXPECT_TRUE(e.links[0].binds && e.links[1].binds);
  EXPECT_NE(e.links[0].sending, e.links[1].sending);
  EXPECT_FALSE(e.links[2].binds);
  EXPECT_THAT(e.links[0].seconds, DoubleNear(0.432, 1e-3));
  EXPECT_THAT(e.bound.seconds, DoubleNear(0.432, 1e-3));
  EXPECT_EQ(e.bound.host, 2);
  // 2 * 3 * 20 MB over 4 links.
  EXPECT_THAT(e.best_bound_s, DoubleNear(0.240, 1e-3));
  EXPECT_GT(e.iteration.estimate.seconds, e.bound.seconds);
  EXPECT_EQ(e.same_as, "");  // no builder makes this one
  EXPECT_EQ(e.served[0].share, 0);
  EXPECT_EQ(e.served[2].share, 1);
  EXPECT_LE(e.links[0].share, 1.0);
}

TEST_F(TwoVariables, CutAndMerged) {
  Strategy s = make(AllReduce{}, AllReduce{});
  EXPECT_EQ(explain(s, graph_, cluster_).patterns.merge_then_all_reduce.variables, 2);
  EXPECT_EQ(explain(s, graph_, cluster_).patterns.merge_groups, 1);
  for (const Served& served : explain(s, graph_, cluster_).served) EXPECT_EQ(served.share, 0);  // no servers
  AllReduce one, two;
  one.group = 1;
  two.group = 2;
  EXPECT_EQ(explain(make(one, two), graph_, cluster_).patterns.merge_groups, 0);
  s.variables[0] = {"big", strategy::Partition{0, 2}, {{one, {}}, {two, {}}}};
  const Explanation e = explain(s, graph_, cluster_);
  EXPECT_EQ(e.patterns.cut, 1);
  EXPECT_EQ(e.patterns.most_shards, 2);
  EXPECT_EQ(e.patterns.partition_then_all_reduce.parts, 2);
  EXPECT_DOUBLE_EQ(e.patterns.partition_then_all_reduce.share, 0.8);
  EXPECT_EQ(e.patterns.merge_then_all_reduce.variables, 0);
}

// As allreduce, but the big one is pushed through one server: 54 MB on its link instead of 30.
TEST_F(TwoVariables, AServerThatBindsIsWorthLessThanNothing) {
  AllReduce alone;
  alone.group = 1;
  ExplainOptions options;
  options.against = "allreduce";
  const Explanation e = explain(make(ParameterServer{host(0)}, alone), graph_, cluster_, options);
  const Worth* worth = find(e, Aspect::kBigSynchronizers);
  ASSERT_NE(worth, nullptr);
  EXPECT_EQ(worth->difference.variables, 1);
  EXPECT_DOUBLE_EQ(worth->difference.bytes, 16e6);
  EXPECT_LT(*worth->worth_s, -0.05);
  EXPECT_EQ(&e.worths.front(), worth) << "the biggest first";
  // Nothing else differs in its synchronizer, so undoing it gives the baseline.
  EXPECT_THAT(*worth->undone_s, DoubleNear(e.baseline_estimate.seconds, 1e-3));
}

TEST_F(TwoVariables, SpreadingOverServersIsWorthMuchAgainstOneServer) {
  ExplainOptions options;
  options.against = "ps";
  const Explanation e =
      explain(make(ParameterServer{host(0)}, ParameterServer{host(1)}), graph_, cluster_, options);
  ASSERT_EQ(e.worths.size(), 1u);
  EXPECT_EQ(e.worths[0].difference.aspect, Aspect::kPlacement);
  EXPECT_EQ(e.worths[0].difference.variables, 1);
  EXPECT_GT(*e.worths[0].worth_s, 0.02);
  EXPECT_DOUBLE_EQ(*e.worths[0].undone_s, e.baseline_estimate.seconds);
}

TEST_F(TwoVariables, ABuilderIsItselfAndComparedWithTheNextOne) {
  const Explanation e = explain(strategy::build("ps-lb", graph_, cluster_), graph_, cluster_);
  EXPECT_EQ(e.same_as, "ps-lb");
  EXPECT_EQ(e.baseline, "ps");
  EXPECT_GT(e.distance, 0);
}

TEST_F(TwoVariables, GroupNumbersAndHostNamesMeanNothing) {
  AllReduce a, b;
  a.group = 7;
  b.group = 2147483647;
  const Strategy one = make(a, b);
  std::swap(a.group, b.group);
  const Strategy two = make(a, b);
  EXPECT_EQ(PartComparison(one, two, graph_, cluster_).distance(), 0);
  const Strategy device = make(ParameterServer{host(1) + ":CPU:0"}, a);
  EXPECT_EQ(PartComparison(device, make(ParameterServer{host(1)}, b), graph_, cluster_).distance(), 0);
}

// A server's part may differ in five things, an all-reduce's in six; the big one is 80% of the bytes.
TEST_F(TwoVariables, DistanceIsTheShareOfWhatPartsCanDifferIn) {
  const auto distance = [&](const Strategy& a, const Strategy& b) {
    return PartComparison(a, b, graph_, cluster_).distance();
  };
  const Strategy served = make(ParameterServer{host(0)}, ParameterServer{host(0)});
  EXPECT_DOUBLE_EQ(distance(served, make(ParameterServer{host(1)}, ParameterServer{host(0)})), 0.8 / 5);
  EXPECT_DOUBLE_EQ(distance(served, make(ParameterServer{host(0)}, AllReduce{})), 0.2);
  AllReduce ring, tree;
  ring.topology = strategy::Topology::kRing;
  tree.topology = strategy::Topology::kTree;
  EXPECT_DOUBLE_EQ(distance(make(ring, ring), make(tree, tree)), 1.0 / 6);
}

TEST_F(TwoVariables, OneMessageIsNotTwoWhateverItsGroupIsCalled) {
  AllReduce other;
  other.group = 1;
  const Strategy merged = make(AllReduce{}, AllReduce{}), apart = make(AllReduce{}, other);
  EXPECT_DOUBLE_EQ(PartComparison(merged, apart, graph_, cluster_).distance(), 1.0 / 6);
  EXPECT_DOUBLE_EQ(PartComparison(apart, merged, graph_, cluster_).distance(), 1.0 / 6);
}

TEST_F(TwoVariables, UnknownBaseline) {
  ExplainOptions options;
  options.against = "nosuch";
  EXPECT_THROW(explain(make(AllReduce{}, AllReduce{}), graph_, cluster_, options), InputError);
}

// The baseline merges all but the first variable: undone, that one stays alone, though its group has the
// number that the baseline gives to the others.
TEST(PartComparison, UndoneMergeGroupsAreTheBaselines) {
  const dataset::Domain d = testing::domain();
  Strategy own, baseline;
  for (size_t v = 0; v < d.graph.variables.size(); ++v) {
    AllReduce alone, merged;
    alone.group = static_cast<int>(v);
    merged.group = v == 0 ? 5 : 0;
    own.variables.push_back({d.graph.variables[v].name, {}, {{alone, {}}}});
    baseline.variables.push_back({d.graph.variables[v].name, {}, {{merged, {}}}});
  }
  const Strategy undone = PartComparison(own, baseline, d.graph, d.cluster).undone(Aspect::kMergeGroups);
  EXPECT_EQ(PartComparison(undone, baseline, d.graph, d.cluster).distance(), 0);
}

// Whatever the two strategies are, undoing a difference gives one that can be run, without that difference.
TEST(PartComparison, UndoneStrategiesAreValidAndNearer) {
  for (const char* where : {"lab:1x10gbit+3x1gbit", "lab:2x1gbit/ranks=2+1x10gbit/server"}) {
    const dataset::Domain d = testing::domain(where);
    const strategy::Sampler sampler(d.graph, d.cluster, {});
    strategy::Rng rng(5);
    for (int i = 0; i < 30; ++i) {
      const Strategy s = sampler.sample(rng);
      for (const std::string& name : strategy::names()) {
        const Strategy baseline = strategy::build(name, d.graph, d.cluster);
        const PartComparison comparison(s, baseline, d.graph, d.cluster);
        for (const Difference& difference : comparison.differences()) {
          const Strategy undone = comparison.undone(difference.aspect);
          EXPECT_NO_THROW(strategy::validate(undone, d.graph, d.cluster)) << name_of(difference.aspect);
          if (difference.aspect == Aspect::kMergeGroups) continue;  // other choices may keep parts apart
          for (const Difference& left : PartComparison(undone, baseline, d.graph, d.cluster).differences()) {
            EXPECT_NE(left.aspect, difference.aspect) << name << ": " << name_of(left.aspect);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace entrain::tuner
