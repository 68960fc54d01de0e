#include "entrain/graph/capture.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "entrain/base/error.h"

namespace entrain::graph {
namespace {

using torch::nn::Linear;
using torch::nn::LinearOptions;

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> result;
  for (const Variable& variable : graph.variables) result.push_back(variable.name);
  return result;
}

std::vector<std::string> edges(const Graph& graph) {
  std::vector<std::string> result;
  for (const Edge& edge : graph.edges) {
    result.push_back(graph.variables[edge.from].name + ">" + graph.variables[edge.to].name);
  }
  return result;
}

Linear plain(int64_t in, int64_t out) { return Linear(LinearOptions(in, out).bias(false)); }

//   x -> a -> b -> (+) -> c      a skips b by the addition; `unused` is registered first and read by nobody.
//         \_______/
struct Residual : torch::nn::Module {
  Residual() {
    unused = register_parameter("unused", torch::zeros({2}));
    c = register_module("c", plain(4, 4));
    b = register_module("b", plain(4, 4));
    a = register_module("a", plain(4, 4));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto h = torch::relu(a(x));
    return c(h + torch::relu(b(h)));
  }
  torch::Tensor unused;
  Linear a{nullptr}, b{nullptr}, c{nullptr};
};

TEST(Capture, FollowsDataAndNotRegistration) {
  Residual model;
  const Graph graph = capture(model, model.forward(torch::randn({3, 4})).sum());
  EXPECT_THAT(names(graph), testing::ElementsAre("a.weight", "b.weight", "c.weight", "unused"));
  EXPECT_THAT(edges(graph),
              testing::ElementsAre("a.weight>b.weight", "a.weight>c.weight", "b.weight>c.weight"));
  EXPECT_EQ(graph.variables[0].shape, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(graph.variables[0].dtype, "float32");
  EXPECT_EQ(graph.variables[0].ready_order, 3);
}

TEST(Capture, AnInputThatRequiresAGradientIsData) {
  Residual model;
  const auto x = torch::randn({3, 4}, torch::requires_grad());
  EXPECT_THAT(names(capture(model, model.forward(x).sum())),
              testing::ElementsAre("a.weight", "b.weight", "c.weight", "unused"));
}

TEST(Capture, WeightAndBiasOfOneOperationAreOneLayer) {
  torch::nn::Sequential model(Linear(4, 4), torch::nn::ReLU(), Linear(4, 2));
  const Capture captured = capture_variables(*model, model->forward(torch::randn({3, 4})).sum());
  EXPECT_THAT(names(captured.graph), testing::ElementsAre("0.weight", "0.bias", "2.weight", "2.bias"));
  EXPECT_THAT(captured.layers, testing::ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(edges(captured.graph), testing::ElementsAre("0.weight>2.weight", "0.weight>2.bias",
                                                          "0.bias>2.weight", "0.bias>2.bias"));
  EXPECT_TRUE(captured.variables[2].is_same(model->named_parameters()["2.weight"]));
}

TEST(Capture, WhatIsMadeOfParametersBelongsToTheOperationThatReadsIt) {
  struct LowRank : torch::nn::Module {
    LowRank() {
      first = register_module("first", plain(4, 4));
      left = register_parameter("left", torch::randn({4, 1}));
      right = register_parameter("right", torch::randn({1, 4}));
    }
    Linear first{nullptr};
    torch::Tensor left, right;
  } model;
  const auto weight = torch::mm(model.left, model.right).t();  // before any data flows
  const auto loss = torch::mm(model.first(torch::randn({3, 4})), weight).sum();
  const Capture captured = capture_variables(model, loss);
  EXPECT_THAT(names(captured.graph), testing::ElementsAre("first.weight", "left", "right"));
  EXPECT_THAT(captured.layers, testing::ElementsAre(0, 1, 1));
  EXPECT_THAT(edges(captured.graph), testing::ElementsAre("first.weight>left", "first.weight>right"));
}

TEST(Capture, ATiedVariableIsOneVariableAtItsFirstUse) {
  struct Tied : torch::nn::Module {
    Tied() {
      embedding = register_module("embedding", torch::nn::Embedding(10, 4));
      hidden = register_module("hidden", plain(4, 4));
      register_module("decoder", plain(4, 10))->weight = embedding->weight;  // by use
      register_parameter("again", embedding->weight);                        // by a second name
    }
    torch::nn::Embedding embedding{nullptr};
    Linear hidden{nullptr};
  } model;
  const auto h = torch::relu(model.hidden(model.embedding(torch::tensor({1, 2}))));
  const Graph graph = capture(model, torch::mm(h, model.embedding->weight.t()).sum());
  // The decoder's own, replaced weight stays registered and is read by nobody.
  ASSERT_THAT(names(graph), testing::ElementsAre("again", "hidden.weight", "decoder.weight"));
  EXPECT_THAT(edges(graph), testing::ElementsAre("again>hidden.weight", "hidden.weight>again"));
}

TEST(Capture, ADeepModelNeedsNoDeepStackNorQuadraticTime) {
  struct Deep : torch::nn::Module {
    Deep() { weight = register_parameter("weight", torch::ones({1})); }
    torch::Tensor weight;
  } model;
  auto x = torch::ones({1});
  for (int i = 0; i < 100'000; ++i) x = x * model.weight;
  EXPECT_THAT(names(capture(model, x.sum())), testing::ElementsAre("weight"));
}

TEST(Capture, RefusesALossWithoutGradient) {
  Residual model;
  EXPECT_THROW(capture(model, torch::zeros({})), Error);
}

TEST(Capture, FindsTheTensorsOfAGraph) {
  Residual model;
  Graph graph = capture(model, model.forward(torch::randn({3, 4})).sum());
  EXPECT_TRUE(tensors_of(trainable_parameters(model), graph)[1].is_same(model.b->weight));
  graph.variables[1].shape = {7};
  EXPECT_THROW(tensors_of(trainable_parameters(model), graph), Error);
}

}  // namespace
}  // namespace entrain::graph
