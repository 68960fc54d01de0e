// A pipeline whose cells are ranks, with any number of devices and micro-batches, schedule and
// rematerialization, is a shape, and computes what the model does without one.
#include <gtest/gtest.h>

#include <mutex>
#include <numeric>

#include "entrain/parallel/shaped.h"
#include "entrain/pipeline/run/pipeline_subjects.h"
#include "support/jobs.h"

namespace entrain::parallel {
namespace {

using pipeline::Options;
using pipeline::Outcome;
using pipeline::Subject;

strategy::Shape shape_of(const Options& options) {
  std::vector<int> ranks(static_cast<size_t>(options.devices));
  std::iota(ranks.begin(), ranks.end(), 0);
  return strategy::shape_of(options, options.balance, ranks);
}

// Three steps; then rank 0 has all. The gradients come from whoever has the layer.
Outcome run_ranks(const Subject& subject, const Options& options) {
  std::mutex turn;  // at torch's one generator, from which models are made, and at the outcome
  Outcome outcome;
  testing::run_job(fmt::format("local:{}", options.devices), [&](job::Context& context) {
    torch::set_num_threads(1);
    const auto model = [&] {
      const std::lock_guard lock(turn);
      return subject.make();
    }();
    Shaped shaped(context, *model, model->sequence(),
                  {.shape = shape_of(options), .examples = subject.batch.size(), .seed = options.seed});
    torch::optim::SGD optimizer(model->parameters(), pipeline::kRate);
    shaped.use(optimizer, 0);
    std::vector<double> losses;
    for (int step = 0; step < pipeline::kSteps; ++step) {
      losses.push_back(
          shaped.run([&](int64_t begin, int64_t count) { return subject.batch.narrow(begin, count); }));
      if (step + 1 < pipeline::kSteps) shaped.update();
    }
    {
      const std::lock_guard lock(turn);
      const auto parameters = model->parameters();
      outcome.gradients.resize(parameters.size());
      for (size_t i = 0; i < parameters.size(); ++i) {
        if (parameters[i].grad().defined()) outcome.gradients[i] = parameters[i].grad().clone();
      }
    }
    shaped.update();
    shaped.gather();
    if (context.rank() != 0) return;
    const std::lock_guard lock(turn);
    outcome.losses = losses;
    outcome.state = pipeline::state_of(*model);
  });
  return outcome;
}

class PipelinesOfRanks : public ::testing::TestWithParam<std::string> {};

TEST_P(PipelinesOfRanks, ComputeTheSameWithEveryScheduleAndRematerialization) {
  const Subject subject = pipeline::make_subject(GetParam());
  pipeline::for_each_setting(subject, [&](const Options& options, const Outcome& expected) {
    pipeline::expect_same(run_ranks(subject, options), expected, describe(options));
  });
}

INSTANTIATE_TEST_SUITE_P(Models, PipelinesOfRanks, ::testing::ValuesIn(pipeline::subject_names()),
                         [](const auto& made) { return made.param; });

// Values and gradients cross borders in the type they have. Sums of bfloat16 depend on their order, so those
// are compared with one micro-batch only.
TEST(PipelinesOfRanksOfAll, PassLayersOfAnotherTypeInTheMiddle) {
  for (const auto& [name, micro_batches] : {std::pair{"mlp_with_doubles", 5}, {"mlp_with_bfloat16", 1}}) {
    const Subject subject = pipeline::make_subject(name);
    const Outcome expected = pipeline::reference(subject, micro_batches);
    for (const int devices : {2, 3, 8}) {
      for (const auto remat : {pipeline::Remat::kNever, pipeline::Remat::kAlways}) {
        const Options options = pipeline::options_for(subject, devices, micro_batches, "1f1b", remat);
        pipeline::expect_same(run_ranks(subject, options), expected,
                              fmt::format("{}: {}", name, describe(options)));
      }
    }
  }
}

}  // namespace
}  // namespace entrain::parallel
