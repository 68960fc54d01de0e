#include "entrain/parallel/distributed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/base/error.h"
#include "entrain/job/agreement.h"
#include "entrain/models/registry.h"
#include "entrain/optim/finite.h"
#include "entrain/parallel/server.h"
#include "entrain/strategy/builders/registry.h"
#include "support/jobs.h"

namespace entrain::parallel {
namespace {

using ::testing::HasSubstr;

std::vector<torch::Tensor> copies(const torch::nn::Module& module) {
  std::vector<torch::Tensor> result;
  for (const auto& parameter : module.parameters()) result.push_back(parameter.detach().clone());
  return result;
}

models::Batch batch_of(const models::Model& model, int rank, int step) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(1000 * rank + step));
  return model.synthetic(2, generator);
}

// Parameters of rank 0 after six steps, with the strategy of each step given.
std::vector<torch::Tensor> train(const std::string& cluster, const std::vector<std::string>& strategies,
                                 bool overlap_forward = true, const std::string& name = "vgg16-small") {
  std::vector<torch::Tensor> result;
  testing::run_job(cluster, [&](job::Context& context) {
    if (!context.trains()) return serve(context);
    const auto model = models::make_model(name, 7);
    torch::optim::Adam optimizer(model->parameters(), 1e-3);
    Distributed distributed(context, *model, optimizer, {strategies[0], 0, overlap_forward});
    for (int step = 0; step < 6; ++step) {
      const std::string& wanted = strategies[step % strategies.size()];
      if (step > 0 && wanted != distributed.strategy().id) {
        distributed.switch_strategy(strategy::build(wanted, distributed.graph(), context.cluster));
      }
      distributed.step(model->loss(batch_of(*model, context.rank(), step)));
    }
    distributed.finish();
    if (context.rank() == 0) result = copies(*model);
  });
  return result;
}

void expect_close(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b,
                  double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_LE((a[i] - b[i]).norm().item<double>(), tolerance * a[i].norm().item<double>())
        << "parameter " << i;
  }
}

TEST(Distributed, SwitchingStrategiesInMidTrainingChangesNothing) {
  const auto plain = train("lab:3x1gbit", {"allreduce"});
  expect_close(plain,
               train("lab:3x1gbit", {"allreduce", "ps", "byteps", "random-axis-allreduce", "ddp", "ps-lb"}),
               1e-4);
  expect_close(plain, train("lab:3x1gbit+1x1gbit/server", {"ps", "allreduce", "partitioned-ps"}), 1e-4);
}

TEST(Distributed, RunsRepeatBitForBit) {
  for (const char* strategy : {"allreduce", "ps"}) {
    expect_close(train("lab:4x1gbit", {strategy}), train("lab:4x1gbit", {strategy}), 0);
  }
}

TEST(Distributed, ForwardThatStartsEarlyReadsOnlyUpdatedParameters) {
  for (const char* model : {"vgg16-small", "lstm-small", "bert-small"}) {
    expect_close(train("lab:2x1gbit", {"allreduce"}, true, model),
                 train("lab:2x1gbit", {"allreduce"}, false, model), 0);
  }
}

TEST(Distributed, OneRankIsPlainTraining) {
  const auto model = models::make_model("vgg16-small", 7);
  torch::optim::Adam optimizer(model->parameters(), 1e-3);
  for (int step = 0; step < 6; ++step) {
    optimizer.zero_grad();
    model->loss(batch_of(*model, 0, step)).backward();
    optimizer.step();
  }
  expect_close(copies(*model), train("local:1", {"allreduce"}), 0);
}

TEST(Distributed, AllRanksStartFromRankZerosParameters) {
  testing::run_job("local:3", [](job::Context& context) {
    const auto model = models::make_model("vgg16-small", 50 + static_cast<uint64_t>(context.rank()));
    torch::optim::SGD optimizer(model->parameters(), 0.0);
    const Distributed distributed(context, *model, optimizer, {});
    const auto expected = models::make_model("vgg16-small", 50);
    expect_close(copies(*expected), copies(*model), 0);
  });
}

// A branch that only some ranks take: the others count as zero.
struct Branching : torch::nn::Module {
  Branching()
      : a(register_module("a", torch::nn::Linear(3, 1))), b(register_module("b", torch::nn::Linear(3, 1))) {}
  torch::nn::Linear a, b;
};

TEST(Distributed, VariableThatARankDoesNotUseCountsAsZero) {
  testing::run_job("local:2", [](job::Context& context) {
    Branching model;
    torch::optim::SGD optimizer(model.parameters(), 1.0);
    Distributed distributed(context, model, optimizer, {});
    const torch::Tensor before = model.b->bias.detach().clone();
    for (int step = 0; step < 2; ++step) {
      const torch::Tensor x = torch::ones({1, 3});
      distributed.step(
          (context.rank() == 0 ? model.a->forward(x) + model.b->forward(x) : model.a->forward(x)).sum());
      distributed.finish();
    }
    EXPECT_FLOAT_EQ((before - model.b->bias).item<float>(),
                    2 * 0.5f);  // d(loss)/d(bias) = 1 on one of two ranks
  });
}

TEST(Distributed, RanksWithDifferentModelsFailNamingTheVariable) {
  try {
    testing::run_job("local:2", [](job::Context& context) {
      auto model = torch::nn::Linear(context.rank() == 0 ? 3 : 4, context.rank() == 0 ? 4 : 3);
      torch::optim::SGD optimizer(model->parameters(), 0.1);
      Distributed distributed(context, *model, optimizer, {});
      distributed.step(model->forward(torch::ones({1, context.rank() == 0 ? 3 : 4})).sum());
      distributed.finish();
    });
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("weight"));
  }
}

TEST(Distributed, AFailingRankEndsTheOthers) {
  try {
    testing::run_job("local:3", [](job::Context& context) {
      const auto model = models::make_model("vgg16-small", 7);
      torch::optim::SGD optimizer(model->parameters(), 0.1);
      Distributed distributed(context, *model, optimizer, {});
      for (int step = 0; step < 3; ++step) {
        if (context.rank() == 1 && step == 2) throw Error("rank 1 runs out of luck");
        distributed.step(model->loss(batch_of(*model, context.rank(), step)));
      }
      distributed.finish();
    });
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 1"));
  }
}

TEST(Distributed, RanksThatResumeFromDifferentStepsAreTold) {
  testing::run_job("local:3", [](job::Context& context) {
    job::agree_on_resumed_step(context, 7);
    const int64_t own = context.rank() == 2 ? 5 : 7;  // a folder of another host
    if (own == 7) return job::agree_on_resumed_step(context, own);
    EXPECT_THROW(job::agree_on_resumed_step(context, own), InputError);
  });
}

// --- Values that are not finite ---

// Rank 1's third loss is infinite; or it is finite and its gradient is NaN: d sqrt(0 w)/dw = 0 / 0.
enum class Bad { kLoss, kGradient };

void train_with_a_bad_batch(job::Context& context, Bad bad, const Options& options, int64_t* skipped) {
  if (!context.trains()) return serve(context);
  auto model = torch::nn::Linear(3, 1);
  {
    const torch::NoGradGuard no_grad;
    model->weight.fill_(0.5);
    model->bias.fill_(0);
  }
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  Distributed distributed(context, *model, optimizer, options);
  for (int step = 0; step < 5; ++step) {
    torch::Tensor loss = model->forward(torch::ones({2, 3})).square().mean();
    if (context.rank() == 1 && step == 2) {
      loss = bad == Bad::kLoss ? loss / 0 : loss + (0 * model->weight.sum()).sqrt();
    }
    distributed.step(loss);
  }
  distributed.finish();
  EXPECT_TRUE(optim::all_finite(model->weight));
  if (context.rank() == 0 && skipped != nullptr) *skipped = distributed.skipped_steps();
}

TEST(Distributed, ALossThatIsNotFiniteEndsTheJobNamingRankAndStep) {
  for (const char* cluster : {"local:2", "lab:2x1gbit+1x1gbit/server"}) {
    try {
      testing::run_job(
          cluster, [](job::Context& context) { train_with_a_bad_batch(context, Bad::kLoss, {}, nullptr); });
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("rank 1, step 2: the loss is inf"));
    }
  }
}

TEST(Distributed, AGradientThatIsNotFiniteEndsTheJobNamingTheVariable) {
  for (const bool overlap : {false, true}) {
    for (const double clip : {0.0, 1.0}) {
      try {
        testing::run_job("local:2", [&](job::Context& context) {
          train_with_a_bad_batch(context, Bad::kGradient, {.overlap_forward = overlap, .clip_norm = clip},
                                 nullptr);
        });
        ADD_FAILURE() << "no error";
      } catch (const Error& e) {
        EXPECT_THAT(e.what(), HasSubstr("step 2: the mean gradient of "));
        EXPECT_THAT(e.what(), HasSubstr("is not finite"));
      }
    }
  }
}

TEST(Distributed, AnUpdateThatIsNotFiniteCanBeSkippedByAllRanks) {
  for (const Bad bad : {Bad::kLoss, Bad::kGradient}) {
    int64_t skipped = 0;
    testing::run_job("local:2", [&](job::Context& context) {
      train_with_a_bad_batch(context, bad, {.on_nonfinite = NonFinite::kSkip}, &skipped);
    });
    EXPECT_EQ(skipped, 1);
  }
}

// --- Options ---

TEST(Distributed, BuffersOfRankZeroGoToAllRanksWhenAsked) {
  testing::run_job("local:3", [](job::Context& context) {
    torch::nn::BatchNorm1d model(4);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    Options options;
    options.buffers = Buffers::kBroadcast;
    Distributed distributed(context, *model, optimizer, options);
    torch::Tensor rank_0 = torch::zeros({4});
    for (int step = 0; step < 3; ++step) {
      const auto x = torch::full({2, 4}, 1.0 + context.rank() + step);
      distributed.step(model->forward(x).square().sum());
      rank_0 = 0.9 * rank_0 + 0.1 * (1.0 + step);
    }
    EXPECT_TRUE(torch::allclose(model->running_mean, rank_0));
    EXPECT_EQ(model->num_batches_tracked.item<int64_t>(), 3);
  });
}

}  // namespace
}  // namespace entrain::parallel
