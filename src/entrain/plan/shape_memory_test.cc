#include "entrain/plan/shape_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "entrain/pipeline/plan/memory.h"
#include "entrain/plan/passes.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::plan {
namespace {

// Variables of 1,000, 2,000 ... bytes, one per layer. Each example keeps 100 bytes in a layer and brings 10
// to the next.
graph::Graph layers(int count) {
  graph::Graph g;
  g.input_bytes = 7;
  for (int l = 0; l < count; ++l) {
    g.variables.push_back({fmt::format("v{}", l), {250 * (l + 1)}});
    g.layers.push_back({fmt::format("layer{}", l), {l}, {}, 10, 100});
  }
  return g;
}

std::vector<RankMemory> memory(const graph::Graph& g, const std::string& text, int64_t examples,
                               int slots = 0, int world = 4) {
  const auto shape = strategy::parse_shape(text, static_cast<int>(g.layers.size()));
  const Assignment assignment = assign(shape, examples);
  return memory_by_rank(shape, g, assignment, make_passes(shape, assignment), slots, world);
}

TEST(ShapeMemory, ARankHasTheWeightsGradientsAndSlotsOfItsLayers) {
  const auto of = memory(layers(3), "0-1@1 2@2", 1, 2);
  EXPECT_EQ(of[1].weights, 3000);
  EXPECT_EQ(of[1].gradients, 3000);
  EXPECT_EQ(of[1].optimizer, 6000);
  EXPECT_EQ(of[2].weights, 3000);
  EXPECT_EQ(of[3].total(), 0);
}

TEST(ShapeMemory, RankZeroKeepsTheWeightsOfTheWholeModel) {
  const auto of = memory(layers(3), "0@0 1-2@1", 1, 1);
  EXPECT_EQ(of[0].weights, 6000);
  EXPECT_EQ(of[0].gradients, 1000);
  EXPECT_EQ(of[0].optimizer, 1000);
  const auto idle = memory(layers(3), "@1", 1)[0];
  EXPECT_EQ(idle.weights, 6000);
  EXPECT_EQ(idle.total(), 6000);
}

TEST(ShapeMemory, ATiedVariableCountsOncePerRank) {
  auto g = layers(3);
  g.layers[2].variables = {0, 2};
  const auto of = memory(g, "0@1 1@2 2@1,3", 2);
  EXPECT_EQ(of[1].weights, 4000);
  EXPECT_EQ(of[3].weights, 4000);
}

TEST(ShapeMemory, ASparseGradientIsTheRowsOfAStep) {
  auto g = layers(1);
  g.variables[0].shape = {100, 10};
  g.variables[0].sparse = true;
  g.variables[0].rows_per_step = 3;
  const auto of = memory(g, "@1", 1, 1);
  EXPECT_EQ(of[1].weights, 4000);
  EXPECT_EQ(of[1].gradients, 3 * (40 + 8));
  EXPECT_EQ(of[1].optimizer, 4000);
}

TEST(ShapeMemory, ActivationsAreThoseInFlight) {
  // gpipe: all 4 micro-batches of 2 examples and 2 layers.
  EXPECT_EQ(memory(layers(2), "@1 m=4 schedule=gpipe remat=never", 8)[1].activations, 4 * 2 * 200);
  EXPECT_EQ(memory(layers(2), "@1 m=4 schedule=gpipe remat=always", 8)[1].activations, 4 * 2 * 7 + 2 * 200);
  EXPECT_EQ(memory(layers(2), "@1 m=4 remat=never", 8)[1].activations, 2 * 200);
}

TEST(ShapeMemory, RecomputedCellsKeepTheirFlowAndTheirSkips) {
  auto g = layers(3);
  g.skips = {{0, 2, 5}, {1, 2, 3}};
  const auto of = memory(g, "0@1 1-2@2 m=2 schedule=gpipe remat=always", 2);
  EXPECT_EQ(of[2].activations, 2 * (10 + 5) + 200);  // the skip from 1 to 2 stays inside
}

TEST(ShapeMemory, APipelinesRanksKeepWhatTheFormulaSays) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (const auto& remat : pipeline::remat_names()) {
      const auto of =
          memory(layers(3), std::string("0@0 1@1 2@2 m=5 schedule=") + schedule + " remat=" + remat, 5);
      for (int k = 1; k < 3; ++k) {
        EXPECT_EQ(of[static_cast<size_t>(k)].activations,
                  pipeline::activation_formula(schedule, 3, k, 5, pipeline::parse_remat(remat), 10, 100))
            << schedule << " " << remat << " " << k;
      }
    }
  }
}

TEST(ShapeMemory, AShapeThatDoesNotFitIsToldByHost) {
  auto g = layers(1);
  g.variables[0].shape = {int64_t{1} << 28};  // 1 GiB
  g.input_bytes = g.layers[0].kept_bytes = 0;
  auto d = cluster::parse("lab:1x1gbit+1x1gbit/ranks=2");
  const auto shape = strategy::parse_shape("@1,2", 1);
  EXPECT_EQ(missing_memory(shape, g, d, 2, 1), "");  // nobody knows what there is
  d.hosts[1].memory_gib = 5.5;
  EXPECT_EQ(missing_memory(shape, g, d, 2, 1),
            "host " + d.hosts[1].address + " needs 6 GiB for ranks 1, 2, available: 5.5 GiB");
  d.hosts[0].memory_gib = 0.25;  // lacks more: rank 0 keeps all weights
  EXPECT_EQ(missing_memory(shape, g, d, 2, 1),
            "host " + d.hosts[0].address + " needs 1 GiB for rank 0, available: 0.25 GiB");
  d.hosts[0].memory_gib = 1;  // not a byte more than is needed
  d.hosts[1].memory_gib = 6;
  EXPECT_EQ(missing_memory(shape, g, d, 2, 1), "");
}

}  // namespace
}  // namespace entrain::plan
