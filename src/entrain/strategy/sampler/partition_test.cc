// How a variable is cut.
#include "entrain/strategy/sampler/partition.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace entrain::strategy::sampling {
namespace {

struct OneVariable {
  explicit OneVariable(std::vector<int64_t> shape) {
    graph.variables.push_back({.name = "v", .shape = std::move(shape)});
  }
  graph::Graph graph;
  cluster::Cluster cluster = cluster::parse("lab:2x1gbit");
};

TEST(Cutting, MakesPartsOfAboutTheSizeAskedFor) {
  const OneVariable model({100, 4});
  const DomainFacts facts(model.graph, model.cluster);
  const int64_t bytes = 100 * 4 * 4;
  Rng rng(1);
  const auto shards = [&](int64_t part_bytes) {
    const MaybePartition cut = cut_to(0, part_bytes, AxisRule::kFirst, facts, {}, rng);
    return cut ? cut->shards : 1;
  };
  EXPECT_EQ(shards(0), 1);  // whole
  EXPECT_EQ(shards(bytes * 7 / 10), 1);
  EXPECT_EQ(shards(bytes / 2), 2);
  EXPECT_EQ(shards(bytes / 5), 5);
  EXPECT_EQ(shards(1), 40);  // the most
}

TEST(Cutting, AVariableNearTheUpperSizeIsCutAlmostAlways) {
  const OneVariable model({1 << 22});  // 16 MB
  const DomainFacts facts(model.graph, model.cluster);
  Rng rng(1);
  const auto cut = [&](int64_t lower, int64_t upper) {
    int count = 0;
    for (int i = 0; i < 1000; ++i) {
      if (draw_partition(0, facts, {.lower_bytes = lower, .upper_bytes = upper}, rng)) ++count;
    }
    return count;
  };
  const int64_t bytes = int64_t{16} << 20;
  EXPECT_GE(cut(bytes / 2, bytes + 1), 995);
  EXPECT_NEAR(cut(bytes / 2, bytes * 3 / 2), 500, 50);
  EXPECT_EQ(cut(bytes, bytes * 2), 0);
  EXPECT_EQ(cut(bytes / 2, bytes), 1000);
}

TEST(Cutting, SomeStylesOfALargeModelCutNothing) {
  const OneVariable model({1 << 26});
  const DomainFacts facts(model.graph, model.cluster);
  Rng rng(1);
  std::vector<int64_t> sizes(200);
  for (int64_t& size : sizes) size = draw_part_bytes(facts, rng);
  EXPECT_EQ(*std::ranges::min_element(sizes), 0);
  EXPECT_EQ(*std::ranges::max_element(sizes), 16 << 20);
  EXPECT_EQ(std::ranges::count(sizes, 1), 0);
}

}  // namespace
}  // namespace entrain::strategy::sampling
