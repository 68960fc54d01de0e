#include "entrain/pipeline/profile/graph_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace entrain::pipeline {
namespace {

using ::testing::ElementsAre;

TEST(GraphLayers, HaveTheirVariablesSizesAndTimesPerExample) {
  torch::nn::Sequential modules(torch::nn::Linear(3, 8), torch::nn::Tanh(), torch::nn::Linear(8, 2));
  const layers::Sequence sequence{layers::layers_of(modules), [](const auto& y, const auto& target) {
                                    return torch::mse_loss(y, target);
                                  }};
  graph::Graph graph;
  for (const auto& item : modules->named_parameters()) {
    graph.variables.push_back({item.key(), item.value().sizes().vec(), "float32"});
  }
  add_layers(graph, *modules, sequence, torch::rand({6, 3}), torch::rand({6, 2}), {1, 6});
  ASSERT_EQ(graph.layers.size(), 3u);
  EXPECT_THAT(graph.layers[0].variables, ElementsAre(0, 1));
  EXPECT_THAT(graph.layers[1].variables, ElementsAre());
  EXPECT_THAT(graph.layers[2].variables, ElementsAre(2, 3));
  EXPECT_EQ(graph.input_bytes, 3 * 4);
  EXPECT_EQ(graph.layers[0].output_bytes, 8 * 4);
  EXPECT_EQ(graph.layers[2].output_bytes, 2 * 4);
  for (const auto& layer : graph.layers) {
    ASSERT_EQ(layer.times.size(), 2u);
    EXPECT_EQ(layer.times[0].examples, 1);
    EXPECT_EQ(layer.times[1].examples, 6);
    EXPECT_GT(layer.times[1].forward_s, 0);
    EXPECT_GT(layer.times[1].backward_s, 0);
  }
}

TEST(GraphLayers, AreProfiledAtOneExampleSomeAndAll) {
  EXPECT_THAT(profiled_sizes(32), ElementsAre(1, 6, 32));
  EXPECT_THAT(profiled_sizes(2), ElementsAre(1, 2));
  EXPECT_THAT(profiled_sizes(1), ElementsAre(1));
}

}  // namespace
}  // namespace entrain::pipeline
