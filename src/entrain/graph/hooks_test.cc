#include <gmock/gmock.h>
#include <torch/torch.h>

#include "entrain/base/error.h"
#include "entrain/graph/forward_watch.h"
#include "entrain/graph/gradient_hooks.h"

namespace entrain::graph {
namespace {

using torch::nn::Linear;

struct TwoLayers {
  Linear first{4, 4}, second{4, 2};
  torch::Tensor x = torch::randn({3, 4});

  std::vector<torch::Tensor> variables() {
    return {first->weight, first->bias, second->weight, second->bias};
  }
  torch::Tensor loss() { return second(torch::relu(first(x))).pow(2).mean(); }
};

TEST(GradientHooks, ReportEachVariableOnceWhenItsGradientIsComplete) {
  TwoLayers model;
  std::vector<size_t> ready;
  std::vector<torch::Tensor> seen(4);
  const auto variables = model.variables();
  GradientHooks hooks(variables, [&](size_t i) {
    ready.push_back(i);
    seen[i] = variables[i].grad().clone();
  });
  model.loss().backward();
  EXPECT_THAT(ready, testing::UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_GE(ready[0], 2u);  // the last layer comes first
  EXPECT_GE(ready[1], 2u);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(torch::equal(seen[i], variables[i].grad()));
}

TEST(GradientHooks, ReportATiedVariableAfterItsLastUse) {
  const auto weight = torch::randn({4, 4}, torch::requires_grad());
  int calls = 0;
  torch::Tensor seen;
  GradientHooks hooks({weight}, [&](size_t) {
    ++calls;
    seen = weight.grad().clone();
  });
  torch::mm(torch::relu(torch::mm(torch::randn({2, 4}), weight)), weight).sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(torch::equal(seen, weight.grad()));
}

TEST(GradientHooks, WorkInEveryBackwardAndEndWithTheObject) {
  TwoLayers model;
  int calls = 0;
  {
    GradientHooks hooks(model.variables(), [&](size_t) { ++calls; });
    model.loss().backward();
    model.loss().backward();
    EXPECT_EQ(calls, 8);
  }
  model.loss().backward();
  EXPECT_EQ(calls, 8);
}

TEST(GradientHooks, WhatTheyThrowLeavesBackward) {
  TwoLayers model;
  GradientHooks hooks(model.variables(),
                      [](size_t i) { throw PeerError(static_cast<int>(i), "rank is gone"); });
  EXPECT_THROW(model.loss().backward(), PeerError);
}

TEST(GradientHooks, RefuseAVariableWithoutGradient) {
  EXPECT_THROW(GradientHooks({torch::zeros({1})}, [](size_t) {}), Error);
}

TEST(ForwardWatch, CallsInTheOrderOfUse) {
  TwoLayers model;
  std::vector<size_t> uses;
  ForwardWatch watch(model.variables(), [&](size_t i) {
    if (std::find(uses.begin(), uses.end(), i) == uses.end()) uses.push_back(i);
  });
  model.loss();
  EXPECT_THAT(uses, testing::ElementsAre(0, 1, 2, 3));
}

TEST(ForwardWatch, CallsBeforeTheOperationReads) {
  TwoLayers model;
  const auto expected = torch::full({3, 4}, 7.0);
  bool arrived = false;
  ForwardWatch watch(model.variables(), [&](size_t) {
    if (arrived) return;
    arrived = true;
    torch::NoGradGuard no_grad;
    model.first->weight.zero_();  // as a late synchronization would
    model.first->bias.fill_(7);
  });
  EXPECT_TRUE(torch::equal(model.first(model.x), expected));
}

TEST(ForwardWatch, IgnoresBackward) {
  TwoLayers model;
  int uses = 0;
  ForwardWatch watch(model.variables(), [&](size_t) { ++uses; });
  auto loss = model.loss();
  EXPECT_GT(uses, 0);
  uses = 0;
  loss.backward();
  EXPECT_EQ(uses, 0);
}

TEST(ForwardWatch, SeesTheWeightsOfAnLstm) {
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(4, 4).num_layers(2));
  std::set<size_t> uses;
  ForwardWatch watch(lstm->parameters(), [&](size_t i) { uses.insert(i); });
  lstm(torch::randn({3, 2, 4}));
  EXPECT_EQ(uses.size(), 8u);
}

TEST(ForwardWatch, KeepsWhatOnUseThrowsForCheck) {
  TwoLayers model;
  int calls = 0;
  ForwardWatch watch(model.variables(), [&](size_t) {
    ++calls;
    throw PeerError(2, "rank 2 is gone");
  });
  watch.check();
  model.loss();
  EXPECT_EQ(calls, 1);
  EXPECT_THROW(watch.check(), PeerError);
}

TEST(ForwardWatch, EndsWithTheObjectAndStaysOnItsThread) {
  TwoLayers model;
  int uses = 0;
  {
    ForwardWatch watch(model.variables(), [&](size_t) { ++uses; });
    std::thread([&] { model.loss(); }).join();
    EXPECT_EQ(uses, 0);
  }
  model.loss();
  EXPECT_EQ(uses, 0);
}

}  // namespace
}  // namespace entrain::graph
