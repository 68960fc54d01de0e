#include "entrain/graph/profile.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "entrain/base/error.h"
#include "entrain/graph/flops.h"

namespace entrain::graph {
namespace {

double flops_of(const std::function<void()>& work) {
  double sum = 0;
  FlopWatch watch([&](double value) { sum += value; });
  work();
  watch.check();
  return sum;
}

TEST(Flops, OfProducts) {
  const auto a = torch::randn({2, 3}), b = torch::randn({3, 5}), batch = torch::randn({7, 2, 3});
  EXPECT_EQ(flops_of([&] { torch::mm(a, b); }), 2 * 2 * 3 * 5);
  EXPECT_EQ(flops_of([&] { torch::matmul(batch, b); }), 7 * 2 * 2 * 3 * 5);
  EXPECT_EQ(flops_of([&] { torch::bmm(batch, torch::randn({7, 3, 4})); }), 7 * 2 * 2 * 3 * 4);
  EXPECT_EQ(flops_of([&] { torch::mv(a, torch::randn({3})); }), 2 * 2 * 3);
  EXPECT_EQ(flops_of([&] { torch::nn::Linear(3, 5)(a); }), 2 * 2 * 3 * 5);
  EXPECT_EQ(flops_of([&] { torch::relu(a + a); }), 0);
}

TEST(Flops, OfConvolutions) {
  const auto x = torch::randn({2, 4, 9, 9});
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(4, 6, 3).stride(2).padding(1).groups(2));
  EXPECT_EQ(flops_of([&] { conv(x); }), 2.0 * (2 * 6 * 5 * 5) * (2 * 3 * 3));
  torch::nn::ConvTranspose2d transposed(torch::nn::ConvTranspose2dOptions(4, 6, 3));
  EXPECT_EQ(flops_of([&] { transposed(x); }), 2.0 * (2 * 4 * 9 * 9) * (6 * 3 * 3));
}

TEST(Flops, OfAnLstm) {
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(4, 5));
  EXPECT_EQ(flops_of([&] { lstm(torch::randn({3, 2, 4})); }), 2.0 * 3 * 2 * (4 * 5) * (4 + 5));
}

struct Recommender : torch::nn::Module {
  Recommender() {
    unused = register_parameter("unused", torch::zeros({1}));
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(100, 8).sparse(true)));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    hidden = register_module("hidden", torch::nn::Linear(8, 4));
  }
  torch::Tensor loss() { return hidden(norm(table(torch::tensor({3, 5, 3, 9})))).pow(2).mean(); }

  torch::Tensor unused;
  torch::nn::Embedding table{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear hidden{nullptr};
};

TEST(Profile, FillsInWhatBackwardShows) {
  Recommender model;
  const Graph graph = profile(model, [&] { return model.loss(); });
  ASSERT_EQ(graph.variables.size(), 6u);
  const Variable& table = graph.variables[0];
  EXPECT_EQ(table.name, "table.weight");
  EXPECT_TRUE(table.sparse);
  EXPECT_EQ(table.rows_per_step, 3);  // row 3 twice
  EXPECT_EQ(table.ready_order, 4);
  EXPECT_EQ(table.flops, 0);

  const Variable& weight = graph.variables[graph.find("hidden.weight")];
  const Variable& bias = graph.variables[graph.find("hidden.bias")];
  EXPECT_FALSE(weight.sparse);
  EXPECT_LT(weight.ready_order, 2);
  EXPECT_LT(bias.ready_order, 2);
  EXPECT_NEAR(weight.flops + bias.flops, 3.0 * 2 * 4 * 8 * 4, 1e-6);

  EXPECT_EQ(graph.variables.back().name, "unused");
  EXPECT_EQ(graph.variables.back().ready_order, 5);
  EXPECT_EQ(graph.variables.back().forward_s + graph.variables.back().backward_s, 0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_GT(graph.variables[i].forward_s, 0) << graph.variables[i].name;
    EXPECT_GT(graph.variables[i].backward_s, 0) << graph.variables[i].name;
  }
}

TEST(Profile, LeavesTheModelAsItWas) {
  Recommender model;
  model.hidden->weight.mutable_grad() = torch::ones({4, 8});
  const auto mean = model.norm->running_mean.clone();
  profile(model, [&] { return model.loss(); }, {.warmup = 0, .repeats = 1});
  EXPECT_TRUE(torch::equal(model.hidden->weight.grad(), torch::ones({4, 8})));
  EXPECT_FALSE(model.table->weight.grad().defined());
  EXPECT_TRUE(torch::equal(model.norm->running_mean, mean));
}

TEST(Profile, NeedsARun) {
  Recommender model;
  EXPECT_THROW(profile(model, [&] { return model.loss(); }, {.warmup = 0, .repeats = 0}), Error);
}

}  // namespace
}  // namespace entrain::graph
