// G of the zoo: what capture and profile make of real models.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "entrain/graph/capture.h"
#include "entrain/graph/profile.h"
#include "entrain/models/registry.h"

namespace entrain::models {
namespace {

graph::Graph profile(const std::string& name) {
  const auto model = make_model(name, 1);
  auto generator = at::detail::createCPUGenerator(2);
  const Batch batch = model->synthetic(4, generator);
  return graph::profile(*model, [&] { return model->loss(batch); }, {.warmup = 1, .repeats = 3});
}

TEST(ModelGraph, VggFlowsForwardAndItsGradientsComeInReverse) {
  const graph::Graph graph = profile("vgg16-small");
  ASSERT_EQ(graph.variables.size(), 32u);
  for (int layer = 0; layer < 16; ++layer) {
    const std::string module =
        layer < 13 ? "conv" + std::to_string(layer + 1) : "fc" + std::to_string(layer - 12);
    EXPECT_EQ(graph.variables[2 * layer].name, module + ".weight");
    EXPECT_EQ(graph.variables[2 * layer + 1].name, module + ".bias");
    EXPECT_EQ(graph.variables[2 * layer].ready_order / 2, 15 - layer);
    EXPECT_EQ(graph.variables[2 * layer + 1].ready_order / 2, 15 - layer);
    EXPECT_GT(graph.variables[2 * layer].forward_s, 0);
    EXPECT_GT(graph.variables[2 * layer].backward_s, 0);
  }
  EXPECT_EQ(graph.edges.size(), 15u * 4);  // from weight and bias to weight and bias of the next layer
  for (const graph::Edge& edge : graph.edges) EXPECT_EQ(edge.to / 2, edge.from / 2 + 1);
}

TEST(ModelGraph, FlopsOfVggAreThePublishedOnes) {
  // 313.2 M products in the convolutions of VGG16 for 32x32 at full width; 18.9 M in the classifier.
  const auto model = make_model("vgg16-32", 1);
  auto generator = at::detail::createCPUGenerator(2);
  const Batch batch = model->synthetic(1, generator);
  const graph::Graph graph =
      graph::profile(*model, [&] { return model->loss(batch); }, {.warmup = 0, .repeats = 1});
  double flops = 0;
  for (const auto& variable : graph.variables) flops += variable.flops;
  EXPECT_NEAR(flops / (3 * 2 * 332.1e6), 1, 0.01);
}

TEST(ModelGraph, BertTiesItsDecoderToTheEmbedding) {
  const graph::Graph graph = profile("bert-small");
  EXPECT_EQ(graph.find("tokens.weight"), 0);
  EXPECT_EQ(graph.variables.back().name, "decoder_bias");
  EXPECT_THAT(graph.edges, testing::Contains(graph::Edge{graph.find("transform_norm.weight"), 0}));
  // Its gradient has to wait for the embedding's: among the last.
  const int count = static_cast<int>(graph.variables.size());
  EXPECT_GE(graph.variables[0].ready_order, count - 3);
  for (const auto& variable : graph.variables) EXPECT_GT(variable.backward_s, 0) << variable.name;
}

TEST(ModelGraph, LstmLayersFollowEachOther) {
  const graph::Graph graph = profile("lstm-small");
  EXPECT_EQ(graph.variables.front().name, "embedding.weight");
  EXPECT_EQ(graph.variables.back().name, "decoder.bias");
  EXPECT_LT(graph.find("lstm.weight_hh_l0"), graph.find("lstm.weight_ih_l1"));
  EXPECT_THAT(graph.edges, testing::Contains(graph::Edge{graph.find("lstm.weight_hh_l0"),
                                                         graph.find("lstm.weight_ih_l1")}));
}

TEST(ModelGraph, SparseNcfTouchesTheRowsOfItsBatch) {
  const graph::Graph sparse = profile("ncf-sparse-small"), dense = profile("ncf-small");
  for (const auto& variable : sparse.variables) {
    const bool table = variable.name.starts_with("mf_") || variable.name.starts_with("mlp_");
    EXPECT_EQ(variable.sparse, table) << variable.name;
    EXPECT_LE(variable.rows_per_step, 4);
    EXPECT_EQ(variable.rows_per_step > 0, table) << variable.name;
  }
  for (const auto& variable : dense.variables) EXPECT_FALSE(variable.sparse) << variable.name;
}

TEST(ModelGraph, EveryVariableOfEverySmallModelIsReachable) {
  for (const std::string& name : names()) {
    if (!name.ends_with("-small")) continue;
    const graph::Graph graph = profile(name);
    std::set<int> orders, touched;
    for (const auto& variable : graph.variables) orders.insert(variable.ready_order);
    for (const auto& edge : graph.edges) touched.insert({edge.from, edge.to});
    EXPECT_EQ(orders.size(), graph.variables.size()) << name;
    EXPECT_EQ(touched.size(), graph.variables.size()) << name;
    EXPECT_GT(graph.compute_s(), 0) << name;
  }
}

}  // namespace
}  // namespace entrain::models
