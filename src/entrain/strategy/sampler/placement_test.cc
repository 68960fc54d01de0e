// Which host serves which part.
#include "entrain/strategy/sampler/placement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace entrain::strategy::sampling {
namespace {

using ::testing::ElementsAre;

// The hosts that serve variables of so many floats.
std::vector<int> placed(const std::vector<int64_t>& sizes, const Balancer& balancer) {
  graph::Graph graph;
  for (const int64_t size : sizes) {
    graph::Variable v;
    v.name = fmt::format("v{}", graph.variables.size());
    v.shape = {size};
    graph.variables.push_back(v);
  }
  const auto cluster = cluster::parse("lab:3x1gbit");
  const DomainFacts facts(graph, cluster);
  Strategy s = blank(facts);
  for (VariableConfig& config : s.variables)
    config.parts = {{ParameterServer{"", false, true, 0}, std::nullopt}};
  Rng rng(1);
  place(s, parts_of(s, Kind::kServer, facts), balancer, facts, rng);
  std::vector<int> hosts;
  for (const VariableConfig& config : s.variables) {
    const std::string& address = std::get<ParameterServer>(config.parts[0].synchronizer).destination;
    for (size_t h = 0; h < cluster.hosts.size(); ++h) {
      if (cluster.hosts[h].address == address) hosts.push_back(static_cast<int>(h));
    }
  }
  return hosts;
}

TEST(Placement, GreedilyTakesTheLeastLoadedHost) {
  EXPECT_THAT(placed({3, 2, 1, 1, 1}, {Balancer::Rule::kGreedy, {1, 1, 1}}), ElementsAre(0, 1, 2, 2, 1));
}

TEST(Placement, SortedBeginsWithTheLargest) {
  EXPECT_THAT(placed({1, 1, 2, 3}, {Balancer::Rule::kSorted, {1, 1, 1}}), ElementsAre(2, 2, 1, 0));
}

TEST(Placement, AHostOfTwiceTheWeightTakesTwiceTheBytes) {
  EXPECT_THAT(placed({1, 1, 1}, {Balancer::Rule::kGreedy, {1, 2, 0}}), ElementsAre(1, 0, 1));
}

TEST(Placement, AHostWithoutWeightServesNothingNotEvenAnEmptyVariable) {
  for (const auto rule : {Balancer::Rule::kGreedy, Balancer::Rule::kSorted, Balancer::Rule::kRandom}) {
    EXPECT_THAT(placed({5, 0, 5}, {rule, {0, 0, 1}}), ElementsAre(2, 2, 2));
    EXPECT_THAT(placed({0}, {rule, {0, 1, 0}}), ElementsAre(1));
  }
}

}  // namespace
}  // namespace entrain::strategy::sampling
