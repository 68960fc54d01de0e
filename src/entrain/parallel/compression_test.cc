// Compressed gradients: all ranks stay alike, the bytes shrink as planned, and training ends where the
// uncompressed one does.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "entrain/collective/cast.h"
#include "entrain/optim/finite.h"
#include "entrain/parallel/distributed.h"
#include "entrain/parallel/server.h"
#include "entrain/plan/link_bound.h"
#include "entrain/strategy/compression.h"
#include "entrain/sync/largest.h"
#include "support/equivalence.h"
#include "support/jobs.h"

namespace entrain::parallel {
namespace {

constexpr int kWorkers = 3;

struct Outcome {
  double loss = 0;                                     // of the averaged problem, at the end
  std::vector<std::vector<torch::Tensor>> parameters;  // by worker
  double bytes_a_step = 0;                             // of worker 0
  double planned_bytes = 0;
};

// A network that has to learn what another one computes; each worker sees its own share of the examples.
struct Problem {
  torch::Tensor x, y;
  Problem() {
    torch::manual_seed(11);
    x = torch::randn({960, 20});
    y = torch::tanh(x.mm(torch::randn({20, 8}))).mm(torch::randn({8, 4})) + 0.5 * torch::randn({960, 4});
  }
  torch::nn::Sequential model() const {
    torch::manual_seed(5);
    return torch::nn::Sequential(torch::nn::Linear(20, 24), torch::nn::Tanh(), torch::nn::Linear(24, 16),
                                 torch::nn::Tanh(), torch::nn::Linear(16, 4));
  }
};

Outcome train_with(const std::string& strategy, int steps, const std::string& cluster = "lab:3x1gbit") {
  const Problem problem;
  Outcome outcome;
  outcome.parameters.resize(kWorkers);
  std::mutex mutex;
  testing::run_job(cluster, [&](job::Context& context) {
    if (!context.trains()) return serve(context);
    const int64_t share = problem.x.size(0) / kWorkers, first = context.rank() * share;
    const auto x = problem.x.narrow(0, first, share), y = problem.y.narrow(0, first, share);
    torch::nn::Sequential model = [&] {
      const std::lock_guard lock(mutex);  // the default generator is one for all threads
      return problem.model();
    }();
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    Distributed distributed(context, *model, optimizer, {.strategy = strategy});
    uint64_t before = 0;
    for (int step = 0; step < steps; ++step) {
      distributed.step(torch::mse_loss(model->forward(x), y));
      if (step == 0) {
        distributed.finish();
        before = context.transport->bytes_sent();
      }
    }
    distributed.finish();
    const std::lock_guard lock(mutex);
    for (const auto& p : model->parameters())
      outcome.parameters[context.rank()].push_back(p.detach().clone());
    if (context.rank() != 0) return;
    outcome.bytes_a_step = static_cast<double>(context.transport->bytes_sent() - before) / (steps - 1);
    outcome.planned_bytes = static_cast<double>(plan::bytes_sent(distributed.plan(), distributed.graph())[0]);
    outcome.loss = torch::mse_loss(model->forward(problem.x), problem.y).item<double>();
  });
  return outcome;
}

class Compressed : public ::testing::TestWithParam<const char*> {};

TEST_P(Compressed, ConvergesToTheUncompressedLoss) {
  constexpr int kSteps = 1200;
  const Outcome plain = train_with("allreduce", kSteps);
  const Outcome compressed = train_with(fmt::format("allreduce+{}", GetParam()), kSteps);
  EXPECT_NEAR(compressed.loss, plain.loss, 0.02 * plain.loss) << GetParam();
  for (int worker = 1; worker < kWorkers; ++worker) {
    for (size_t i = 0; i < compressed.parameters[0].size(); ++i) {
      EXPECT_TRUE(torch::equal(compressed.parameters[worker][i], compressed.parameters[0][i]))
          << worker << " " << i;
    }
  }
}

TEST_P(Compressed, SendsWhatThePlanSays) {
  std::vector<std::string> builders = {"allreduce", "partitioned-allreduce"};
  if (strategy::is_cast(strategy::parse_compression(GetParam()).compressor)) {
    builders.insert(builders.end(), {"ps", "partitioned-ps"});
  }
  for (const auto& builder : builders) {
    const Outcome outcome = train_with(fmt::format("{}+{}", builder, GetParam()), 4);
    EXPECT_NEAR(outcome.bytes_a_step, outcome.planned_bytes, 0.02 * outcome.planned_bytes + 64)
        << builder << " " << GetParam();
  }
}

INSTANTIATE_TEST_SUITE_P(Compressors, Compressed,
                         ::testing::Values("fp16", "fp16-ef", "bf16", "powersgd:4", "topk:0.2"),
                         [](const auto& p) {
                           std::string name = p.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

// A gradient of 1e6 became infinity as float16, and all parameters NaN.
TEST(Compressed, AGradientBeyondFloat16LeavesFiniteParameters) {
  for (const char* strategy : {"allreduce+fp16", "allreduce+fp16-ef", "ps+fp16"}) {
    const uint64_t before = collective::saturated_values();
    testing::run_job("lab:2x1gbit", [&](job::Context& context) {
      torch::nn::Linear model(20, 3);
      torch::optim::SGD optimizer(model->parameters(), 1e-6);
      Distributed distributed(context, *model, optimizer, {.strategy = strategy});
      for (int step = 0; step < 3; ++step) {
        distributed.step((model->forward(torch::ones({1, 20})) * 1e6).sum());
        distributed.finish();
        for (const auto& parameter : model->named_parameters()) {
          if (!at::isfinite(parameter.value()).all().item<bool>()) {
            fail("{} is not finite after step {} of {}", parameter.key(), step, strategy);
          }
        }
      }
    });
    EXPECT_GT(collective::saturated_values(), before) << strategy;
  }
}

// Top-k passed over NaN, so that nobody saw it while that element was never trained again; and all three kept
// it as an error for ever.
TEST(Compressed, WhatIsNotFiniteIsSeenByAllRanksAndGoneWithTheNextStep) {
  for (const char* strategy : {"allreduce+fp16-ef", "allreduce+topk:0.01", "allreduce+powersgd:2"}) {
    testing::run_job("lab:2x1gbit", [&](job::Context& context) {
      torch::nn::Linear model(300, 300);
      Distributed distributed(context, *model, {.strategy = strategy});
      for (int step = 0; step < 4; ++step) {
        const bool bad = step == 1 && context.rank() == 1;
        const torch::Tensor scale = torch::linspace(1, 2, 300).unsqueeze(0);
        if (bad) scale[0][3] = NAN;
        model->zero_grad();
        // Not step(), which would end the job at such a loss.
        distributed.backward((model->forward(torch::linspace(1, 3, 300).unsqueeze(0)) * scale).sum());
        const bool finite = optim::all_finite({model->weight.grad(), model->bias.grad()});
        if (finite != (step != 1)) {
          fail("rank {}, {}: the gradient of step {} is {}finite", context.rank(), strategy, step,
               finite ? "" : "not ");
        }
      }
    });
  }
}

TEST(Compressed, ServersTakeCasts) {
  const Outcome plain = train_with("ps", 50, "lab:3x1gbit+1x10gbit/server");
  for (const char* name : {"ps+fp16", "ps+fp16-ef", "partitioned-ps+bf16"}) {
    const Outcome outcome = train_with(name, 50, "lab:3x1gbit+1x10gbit/server");
    EXPECT_NEAR(outcome.loss, plain.loss, 0.02 * plain.loss) << name;
    EXPECT_NEAR(outcome.bytes_a_step, plain.bytes_a_step / 2, 0.02 * plain.bytes_a_step) << name;
  }
}

TEST(Largest, FindsAboutAsManyAsAskedForAndTheLargest) {
  torch::manual_seed(3);
  for (const int64_t n : {int64_t{10}, int64_t{1000}, int64_t{1} << 20}) {
    const auto values = torch::randn({n});
    const int64_t k = std::max<int64_t>(1, n / 100);
    const auto found = sync::largest(values, k);
    EXPECT_GE(found.numel(), k / 2);
    EXPECT_LE(found.numel(), 2 * k);
    const auto chosen = values.index_select(0, found).abs();
    auto rest = values.abs();
    rest.index_fill_(0, found, 0);
    EXPECT_GE(chosen.min().item<float>(), rest.max().item<float>());
    EXPECT_TRUE(torch::equal(found, std::get<0>(found.sort())));
  }
  auto mostly_zero = torch::zeros({1 << 20});
  mostly_zero[1000000] = 5;
  EXPECT_EQ(sync::largest(mostly_zero, 100).numel(), 1) << "zeros are not worth sending";
}

}  // namespace
}  // namespace entrain::parallel
