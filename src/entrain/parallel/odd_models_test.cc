// What models may do that those of the zoo do not: two handles in one job, gradients that are views of one
// another, layers that are never used, frozen ones, a backward that throws.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "entrain/base/error.h"
#include "entrain/parallel/distributed.h"
#include "entrain/parallel/server.h"
#include "support/jobs.h"

namespace entrain::parallel {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 6;

// Ranks are threads, and the default generator is shared between them.
torch::Tensor drawn(std::vector<int64_t> shape, uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed));
}

template <typename Module>
std::shared_ptr<Module> seeded(uint64_t seed) {
  auto module = std::make_shared<Module>();
  const torch::NoGradGuard no_grad;
  for (auto& parameter : module->parameters()) parameter.copy_(0.1 * drawn(parameter.sizes().vec(), seed++));
  return module;
}

std::vector<torch::Tensor> copies(const torch::nn::Module& module) {
  std::vector<torch::Tensor> result;
  for (const auto& parameter : module.parameters()) result.push_back(parameter.detach().clone());
  return result;
}

void expect_close(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b,
                  const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_LE((a[i] - b[i]).norm().item<double>(), 1e-5 * b[i].norm().item<double>())
        << what << ", parameter " << i;
  }
}

// One process that steps on the mean of what the ranks compute.
template <typename Module>
std::vector<torch::Tensor> plain(Module& module, int ranks) {
  torch::optim::SGD optimizer(module.parameters(), 0.1);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    torch::Tensor loss = torch::zeros({});
    for (int rank = 0; rank < ranks; ++rank) loss = loss + module.loss(rank, step) / ranks;
    loss.backward();
    optimizer.step();
  }
  return copies(module);
}

struct Critic : torch::nn::Module {
  Critic()
      : first(register_module("first", torch::nn::Linear(32, 256))),
        last(register_module("last", torch::nn::Linear(256, 1))) {}
  torch::Tensor loss(int rank, int step) {
    const auto x = drawn({4, 32}, static_cast<uint64_t>(100 * rank + step));
    return (last(torch::tanh(first(x))) - 1).square().mean();
  }
  torch::nn::Linear first, last;
};

TEST(OddModels, TwoHandlesOfOneJobDoNotMixTheirMessages) {
  const auto one = plain(*seeded<Critic>(1), 3), two = plain(*seeded<Critic>(2), 3);
  for (const char* strategy : {"allreduce", "ps", "byteps"}) {
    testing::run_job("local:3", [&](job::Context& context) {
      const auto a = seeded<Critic>(1), b = seeded<Critic>(2);
      torch::optim::SGD of_a(a->parameters(), 0.1), of_b(b->parameters(), 0.1);
      Distributed first(context, *a, of_a, {strategy}), second(context, *b, of_b, {strategy});
      for (int step = 0; step < kSteps; ++step) {  // the first's messages are under way during the second's
        first.step(a->loss(context.rank(), step));
        second.step(b->loss(context.rank(), step));
      }
      first.finish();
      second.finish();
      if (context.rank() != 0) return;
      expect_close(copies(*a), one, strategy);
      expect_close(copies(*b), two, strategy);
    });
  }
}

// A batch of one: the gradient of `position` is a view of that which goes on to `first`. Those of `left` and
// `right` are views of one tensor.
struct Views : torch::nn::Module {
  static constexpr int64_t kWide = 1 << 15;
  Views()
      : first(register_module("first", torch::nn::Linear(16, kWide))),
        position(register_parameter("position", torch::zeros({kWide}))),
        left(register_parameter("left", torch::zeros({kWide / 8, 8}))),
        right(register_parameter("right", torch::zeros({kWide / 16, 16}))) {}
  torch::Tensor loss(int rank, int step) {
    const auto x = drawn({1, 16}, static_cast<uint64_t>(100 * rank + step));
    return (first(x) + position.unsqueeze(0) + (left.view(-1) + right.view(-1)).unsqueeze(0) - 1)
               .square()
               .sum() /
           64;
  }
  torch::nn::Linear first;
  torch::Tensor position, left, right;
};

TEST(OddModels, GradientsThatAreViewsOfOneAnother) {
  const auto expected = plain(*seeded<Views>(3), 2);
  for (const char* strategy : {"allreduce", "ps", "partitioned-ps"}) {
    testing::run_job("local:2", [&](job::Context& context) {
      const auto model = seeded<Views>(3);
      torch::optim::SGD optimizer(model->parameters(), 0.1);
      Distributed distributed(context, *model, optimizer, {strategy});
      for (int step = 0; step < kSteps; ++step) distributed.step(model->loss(context.rank(), step));
      distributed.finish();
      if (context.rank() == 0) expect_close(copies(*model), expected, strategy);
    });
  }
}

struct WithSpare : Critic {
  WithSpare() : spare(register_module("spare", torch::nn::Linear(32, 32))) {}
  torch::nn::Linear spare;
};

TEST(OddModels, WhatNoWorkerUsesStaysAsItIs) {
  for (const char* cluster : {"local:1", "local:3", "lab:2x1gbit+1x1gbit/server"}) {
    for (const char* strategy : {"allreduce", "ps", "byteps", "allreduce+fp16", "ps+bf16"}) {
      testing::run_job(cluster, [&](job::Context& context) {
        if (!context.trains()) return serve(context);
        const auto model = seeded<WithSpare>(4);
        const auto before = copies(*model->spare);
        torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.1).weight_decay(0.1));
        Distributed distributed(context, *model, optimizer, {strategy});
        for (int step = 0; step < kSteps; ++step) distributed.step(model->loss(context.rank(), step));
        distributed.finish();
        const auto after = copies(*model->spare);
        for (size_t i = 0; i < before.size(); ++i) {
          EXPECT_TRUE(torch::equal(before[i], after[i])) << cluster << " " << strategy;
        }
      });
    }
  }
}

// Ranks other than 0 are the first to look words up: whose gradients are sparse, rank 0's first batch does
// not tell. With `dense`, one of them makes a dense gradient of the same table.
template <bool kDense>
struct Words : Critic {
  Words()
      : table(register_module("table",
                              torch::nn::Embedding(torch::nn::EmbeddingOptions(12, 32).sparse(true)))) {}
  torch::Tensor loss(int rank, int step) {
    const auto x = drawn({4, 32}, static_cast<uint64_t>(100 * rank + step));
    if (rank == 0 && step % 2 == 0) return value(x);
    if (kDense && rank == 1) return value(x + table->weight.sum(0));
    return value(x + table((x.select(1, 0) * 100).to(torch::kInt64).remainder(12)));
  }
  torch::Tensor value(const torch::Tensor& x) { return (last(torch::tanh(first(x))) - 1).square().mean(); }
  torch::nn::Embedding table;
};

template <typename Module>
void expect_plain(const std::string& cluster) {
  const int workers = cluster::parse(cluster).workers();
  const auto expected = plain(*seeded<Module>(4), workers);
  for (const char* strategy : {"allreduce", "ps", "parallax"}) {
    testing::run_job(cluster, [&](job::Context& context) {
      if (!context.trains()) return serve(context);
      const auto model = seeded<Module>(4);
      torch::optim::SGD optimizer(model->parameters(), 0.1);
      Distributed distributed(context, *model, optimizer, {strategy});
      for (int step = 0; step < kSteps; ++step) distributed.step(model->loss(context.rank(), step));
      expect_close(copies(*model), expected, cluster + " " + strategy);
    });
  }
}

TEST(OddModels, ASparseGradientThatTheFirstBatchOfRankZeroDoesNotMake) {
  for (const char* cluster : {"local:2", "local:3", "lab:2x1gbit+1x1gbit/server"}) {
    expect_plain<Words<false>>(cluster);
    expect_plain<Words<true>>(cluster);
  }
}

TEST(OddModels, ABackwardThatThrowsEndsTheJobForAll) {
  std::atomic<int> failed = 0;
  testing::run_job("local:3", [&](job::Context& context) {
    const auto model = seeded<Critic>(6);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    Distributed distributed(context, *model, optimizer, {});
    try {
      for (int step = 0; step < kSteps; ++step) {
        torch::Tensor loss = model->loss(context.rank(), step);
        if (context.rank() == 1 && step == 2) {
          loss.register_hook(
              [](const torch::Tensor&) -> torch::Tensor { throw std::runtime_error("no memory"); });
        }
        distributed.step(loss);
      }
      distributed.finish();
    } catch (const std::exception& e) {
      EXPECT_THAT(e.what(), HasSubstr("no memory"));
      ++failed;
    }
  });
  EXPECT_EQ(failed, 3);
}

}  // namespace
}  // namespace entrain::parallel
