// Any synchronous strategy on any number of ranks gives the gradient that one process gives
// on the whole batch: every builder, every topology, dense and sparse models.
#include <gtest/gtest.h>

#include <cmath>

#include "entrain/data/data.h"
#include "entrain/parallel/server.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/train/examples.h"
#include "entrain/train/train.h"
#include "support/equivalence.h"
#include "support/jobs.h"

namespace entrain::train {
namespace {

using testing::Gradients;

void expect_equivalent(const std::string& model, const std::string& cluster, const std::string& strategy,
                       const Gradients& expected,
                       const std::function<strategy::Strategy(strategy::Strategy)>& change = nullptr) {
  testing::run_job(cluster, [&](job::Context& context) {
    if (!context.trains()) return parallel::serve(context);
    testing::check_equivalence(context, model, expected, {strategy}, change);
  });
}

class EquivalenceTest : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(EquivalenceTest, EveryBuilder) {
  const auto [model, ranks] = GetParam();
  const Gradients expected = testing::gradients_alone(model, ranks);
  for (const auto& builder : strategy::names()) {
    expect_equivalent(model, fmt::format("lab:{}x1gbit", ranks), builder, expected);
  }
}

TEST_P(EquivalenceTest, EveryTopology) {
  using strategy::Topology;
  const auto [model, ranks] = GetParam();
  const Gradients expected = testing::gradients_alone(model, ranks);
  for (const Topology topology : {Topology::kRing, Topology::kHalvingDoubling, Topology::kTree,
                                  Topology::kHierarchical, Topology::kReduceScatter}) {
    for (const char* builder : {"allreduce", "partitioned-allreduce"}) {
      expect_equivalent(model, fmt::format("lab:{}x1gbit", ranks), builder, expected,
                        [&](strategy::Strategy s) {
                          s.id += fmt::format(" topology {}", static_cast<int>(topology));
                          for (auto& variable : s.variables) {
                            for (auto& part : variable.parts) {
                              if (auto* all_reduce = std::get_if<strategy::AllReduce>(&part.synchronizer))
                                all_reduce->topology = topology;
                            }
                          }
                          return s;
                        });
    }
  }
}

TEST_P(EquivalenceTest, ServersOnHostsOfTheirOwn) {
  const auto [model, ranks] = GetParam();
  const Gradients expected = testing::gradients_alone(model, ranks);
  for (const char* builder : {"ps", "ps-lb", "partitioned-ps", "parallax", "byteps", "allreduce"}) {
    expect_equivalent(model, fmt::format("lab:{}x1gbit+2x10gbit/server", ranks), builder, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EquivalenceTest,
                         ::testing::Combine(::testing::Values("vgg16-small", "bert-small", "lstm-small",
                                                              "ncf-sparse-small"),
                                            ::testing::Values(2, 3, 4)),
                         [](const auto& p) {
                           std::string name = std::get<0>(p.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return fmt::format("{}_on_{}", name, std::get<1>(p.param));
                         });

TEST(Equivalence, SeveralRanksAHost) {
  for (const char* model : {"vgg16-small", "ncf-sparse-small"}) {
    const Gradients expected = testing::gradients_alone(model, 4);
    for (const auto& builder : strategy::names())
      expect_equivalent(model, "lab:2x1gbit/ranks=2", builder, expected);
  }
}

TEST(Equivalence, GradientsAreClippedByTheNormOfTheWholeBatch) {
  for (const char* model : {"vgg16-small", "ncf-sparse-small"}) {
    Gradients expected = testing::gradients_alone(model, 3);
    double norm = 0;
    for (const auto& [name, gradient] : expected) norm += gradient.square().sum().item<double>();
    norm = std::sqrt(norm);
    for (auto& [name, gradient] : expected) gradient /= 2;
    parallel::Options options;
    options.clip_norm = norm / 2;
    for (const char* builder : {"allreduce", "parallax", "partitioned-ps"}) {
      options.strategy = builder;
      testing::run_job("lab:3x1gbit", [&](job::Context& context) {
        testing::check_equivalence(context, model, expected, options);
      });
    }
  }
}

TrainOptions scheduled(const std::string& schedule) {
  TrainOptions options;
  options.model = "lstm-small";  // no kinks: rounding stays rounding
  options.optimizer.base = "momentum";
  options.optimizer.learning_rate = 0.2;
  options.optimizer.rate_schedule = schedule;
  options.optimizer.warmup = 0.25;
  options.optimizer.clip_norm = 1;
  options.steps = 8;
  options.batch_size = 2;
  options.seed = 7;
  options.progress = false;
  return options;
}

double last_loss_together(const TrainOptions& options, int workers) {
  double loss = 0;
  testing::run_job(fmt::format("lab:{}x1gbit", workers), [&](job::Context& context) {
    const TrainReport report = train(context, options);
    if (context.rank() == 0) loss = report.last_loss;
  });
  return loss;
}

// Plain libtorch on the batches of all workers at once.
double last_loss_alone(const TrainOptions& options, int workers) {
  const strategy::Optimizer& settings = options.optimizer;
  const auto model = models::make_model(options.model, options.seed);
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(settings.learning_rate).momentum(0.9));
  const auto data = data::open_data("", *model, data_options(options, workers, torch::kCPU));
  double last = 0;
  for (int64_t step = 0; step < options.steps; ++step) {
    sgd.zero_grad();
    const torch::Tensor loss = model->loss(data->training(step, 0, options.batch_size * workers));
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), settings.clip_norm);
    const double done = static_cast<double>(step) / static_cast<double>(options.steps);
    for (auto& group : sgd.param_groups()) {
      group.options().set_lr(settings.learning_rate * settings.rate_factor(done));
    }
    sgd.step();
    last = loss.item<double>();
  }
  return last;
}

TEST(Equivalence, AScheduledRateIsTheSameOnAllRanks) {
  for (const char* schedule : {"linear", "steps"}) {
    const TrainOptions options = scheduled(schedule);
    const double alone = last_loss_alone(options, 2);
    EXPECT_NEAR(last_loss_together(options, 2), alone, 1e-5 * alone) << schedule;
    EXPECT_GT(std::abs(last_loss_alone(scheduled("constant"), 2) - alone), 1e-4 * alone)
        << schedule << ": the schedule does nothing here";
  }
}

}  // namespace
}  // namespace entrain::train
