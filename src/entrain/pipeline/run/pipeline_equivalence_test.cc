// Any pipeline computes what the model does without one: loss, gradients, parameters, statistics.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/pipeline/run/pipeline_subjects.h"
#include "entrain/pipeline/run/thread_pipeline.h"

namespace entrain::pipeline {
namespace {

// Three steps of a thread pipeline.
Outcome run_threads(const Subject& subject, const Options& options) {
  const auto model = subject.make();
  ThreadPipeline pipeline(model->sequence(), options);
  torch::optim::SGD optimizer(model->parameters(), kRate);
  Outcome outcome;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    outcome.losses.push_back(pipeline.run(subject.batch.input, subject.batch.target));
    outcome.gradients = gradients_of(*model);
    optimizer.step();
  }
  outcome.state = state_of(*model);
  return outcome;
}

class Equivalence : public ::testing::TestWithParam<std::string> {};

TEST_P(Equivalence, OfThreadsWithEveryScheduleAndRematerialization) {
  const Subject subject = make_subject(GetParam());
  for_each_setting(subject, [&](const Options& options, const Outcome& expected) {
    expect_same(run_threads(subject, options), expected, describe(options));
  });
}

INSTANTIATE_TEST_SUITE_P(Models, Equivalence, ::testing::ValuesIn(subject_names()),
                         [](const auto& made) { return made.param; });

TEST(EquivalenceOfAll, WithTheWholeBatchAtOnceWhereNoLayerMixesExamples) {
  for (const std::string name : {"mlp", "transformer_without_dropout"}) {
    const Subject subject = make_subject(name);
    const Outcome whole = reference(subject, 1);
    Options options = options_for(subject, 3, 5, "1f1b", Remat::kAlways);
    expect_same(run_threads(subject, options), whole, name);
  }
}

// Values and gradients cross borders in the type they have. Sums of bfloat16 depend on their order, so those
// are compared with one micro-batch only.
TEST(EquivalenceOfAll, WithLayersOfAnotherTypeInTheMiddle) {
  for (const auto& [name, micro_batches] : {std::pair{"mlp_with_doubles", 5}, {"mlp_with_bfloat16", 1}}) {
    const Subject subject = make_subject(name);
    const Outcome expected = reference(subject, micro_batches);
    for (const int devices : {2, 3, 8}) {
      for (const Remat remat : {Remat::kNever, Remat::kAlways}) {
        const Options options = options_for(subject, devices, micro_batches, "1f1b", remat);
        expect_same(run_threads(subject, options), expected, fmt::format("{}: {}", name, describe(options)));
      }
    }
  }
}

TEST(ThreadPipeline, AnErrorInOneCellEndsTheStepAndTheNextOneWorks) {
  const Subject subject = make_subject("mlp");
  const auto model = subject.make();
  auto sequence = model->sequence();
  bool broken = true;
  const auto forward = sequence.layers[9].forward;
  sequence.layers[9].forward = [&](const torch::Tensor& x, layers::Skips& skips) {
    if (broken) throw Error("layer 9 is broken");
    return forward(x, skips);
  };
  ThreadPipeline pipeline(sequence, options_for(subject, 4, 8, "1f1b", Remat::kNever));
  try {
    pipeline.run(subject.batch.input, subject.batch.target);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "layer 9 is broken");
  }
  broken = false;
  EXPECT_TRUE(std::isfinite(pipeline.run(subject.batch.input, subject.batch.target)));
}

TEST(ThreadPipeline, TorchsOwnDropoutIsReplayedToo) {
  const auto run = [](Remat remat, int devices) {
    torch::manual_seed(5);
    torch::nn::Sequential modules(torch::nn::Linear(8, 32), torch::nn::Dropout(0.5),
                                  torch::nn::Linear(32, 32), torch::nn::Dropout(0.5),
                                  torch::nn::Linear(32, 1));
    const layers::Sequence sequence{layers::layers_of(modules), [](const auto& y, const auto& target) {
                                      return torch::mse_loss(y, target);
                                    }};
    Options options;
    options.devices = devices;
    options.balance = devices == 1 ? std::vector<int>{5} : std::vector<int>{2, 3};
    options.micro_batches = 4;
    options.schedule = "gpipe";
    options.remat = remat;
    options.seed = 3;
    ThreadPipeline pipeline(sequence, options);
    const auto x = torch::arange(64.0).view({8, 8}) / 64;
    pipeline.run(x, torch::ones({8, 1}));
    return modules->parameters()[0].grad().clone();
  };
  const auto expected = run(Remat::kNever, 1);
  EXPECT_TRUE(torch::allclose(run(Remat::kAlways, 1), expected, 1e-5, 1e-7));
  EXPECT_TRUE(torch::allclose(run(Remat::kAlways, 2), expected, 1e-5, 1e-7));
}

TEST(ThreadPipeline, BadSettingsAreNamed) {
  const Subject subject = make_subject("mlp");
  const auto model = subject.make();
  Options options = options_for(subject, 2, 4, "gpipe", Remat::kNever);
  options.balance = {1, 1};
  EXPECT_THROW(ThreadPipeline(model->sequence(), options), InputError);
  options = options_for(subject, 2, 4, "gpipe", Remat::kNever);
  options.schedule = "2f2b";
  EXPECT_THROW(ThreadPipeline(model->sequence(), options), InputError);
  EXPECT_THROW(ThreadPipeline({}, options_for(subject, 1, 1, "gpipe", Remat::kNever)), InputError);
  ThreadPipeline pipeline(model->sequence(), options_for(subject, 2, 4, "gpipe", Remat::kNever));
  EXPECT_THROW(pipeline.run(subject.batch.input.narrow(0, 0, 3), subject.batch.target.narrow(0, 0, 3)),
               InputError);
}

// Who limits torch's threads, by OMP_NUM_THREADS or from the program, limits those of all cells together.
TEST(Threads, OfTorchAreSharedOutAndKeptForOthers) {
  torch::set_num_threads(4);
  std::array<int, 2> inside{};
  layers::Sequence sequence;
  for (int* seen : {&inside[0], &inside[1]}) {
    sequence.layers.push_back({"", nullptr, [seen](const torch::Tensor& x, layers::Skips&) {
                                 *seen = torch::get_num_threads();
                                 return 2 * x;
                               }});
  }
  sequence.loss = [](const torch::Tensor& output, const torch::Tensor&) { return output.mean(); };
  ThreadPipeline pipeline(sequence, {Pipeline{2, 1, "gpipe", 1, Remat::kNever, {1, 1}}});
  const auto input = torch::ones({1, 1}).requires_grad_();
  pipeline.run(input, input);
  int others = 0;
  std::thread([&] { others = torch::get_num_threads(); }).join();
  EXPECT_EQ(inside, (std::array{2, 2}));
  EXPECT_EQ(others, 4);
}

}  // namespace
}  // namespace entrain::pipeline
