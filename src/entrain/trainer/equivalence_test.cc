// Any synchronous strategy on any number of ranks gives the gradient that one process gives
// on the whole batch: every builder, every topology, dense and sparse models.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

#include "entrain/models/registry.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/trainer/distributed.h"
#include "entrain/trainer/server.h"
#include "support/jobs.h"

namespace entrain {
namespace {

constexpr int64_t kBatch = 2;  // per rank

models::Batch rank_batch(const models::Model& model, int rank) {
  auto generator = at::detail::createCPUGenerator(100 + static_cast<uint64_t>(rank));
  return model.synthetic(kBatch, generator);
}

models::Batch whole_batch(const models::Model& model, int workers) {
  std::vector<torch::Tensor> inputs, targets;
  for (int rank = 0; rank < workers; ++rank) {
    const models::Batch batch = rank_batch(model, rank);
    inputs.push_back(batch.input);
    targets.push_back(batch.target);
  }
  return {torch::cat(inputs), torch::cat(targets)};
}

using Gradients = std::map<std::string, torch::Tensor>;

torch::Tensor densified(const torch::Tensor& gradient) {
  return gradient.is_sparse() ? gradient.to_dense() : gradient.clone();
}

Gradients alone(const std::string& name, int workers) {
  const auto model = models::make_model(name, 7);
  model->loss(whole_batch(*model, workers)).backward();
  Gradients gradients;
  for (const auto& parameter : model->named_parameters()) gradients[parameter.key()] = densified(parameter->grad());
  return gradients;
}

// Keeps each gradient that it is asked to apply.
class Recorder : public torch::optim::Optimizer {
 public:
  Recorder(torch::nn::Module& module, Gradients& into)
      : Optimizer(module.parameters(), std::make_unique<torch::optim::SGDOptions>(0.0)), module_(module), into_(into) {}
  torch::Tensor step(LossClosure = nullptr) override {
    const torch::NoGradGuard no_grad;
    for (const auto& group : param_groups()) {
      for (const auto& updated : group.params()) {
        for (const auto& parameter : module_.named_parameters()) {
          if (parameter->is_same(updated)) into_[parameter.key()] = densified(updated.grad());
        }
      }
    }
    return {};
  }

 private:
  torch::nn::Module& module_;
  Gradients& into_;
};

double relative_error(const torch::Tensor& got, const torch::Tensor& expected) {
  const double scale = expected.norm().item<double>();
  return (got - expected).norm().item<double>() / std::max(scale, 1e-12);
}

// The second step's gradients: the first one synchronizes after backward, the others during it.
void expect_equivalent(const std::string& model_name, const std::string& cluster, const Gradients& expected,
                       const Options& options,
                       const std::function<strategy::Strategy(const strategy::Strategy&)>& change = nullptr) {
  testing::run_job(cluster, [&](Context& context) {
    if (!context.trains()) return serve(context);
    const auto model = models::make_model(model_name, 7);
    Gradients gradients;
    Recorder recorder(*model, gradients);
    Distributed distributed(context, *model, recorder, options);
    const auto batch = rank_batch(*model, context.rank());
    distributed.step(model->loss(batch));
    distributed.finish();
    if (change) distributed.switch_strategy(change(distributed.strategy()));
    gradients.clear();
    distributed.step(model->loss(batch));
    distributed.finish();
    ASSERT_EQ(gradients.size(), expected.size());
    for (const auto& [name, gradient] : gradients) {
      EXPECT_LT(relative_error(gradient, expected.at(name)), 1e-5)
          << model_name << " " << cluster << " " << distributed.strategy().id << " rank " << context.rank() << " " << name;
    }
  });
}

class EquivalenceTest : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(EquivalenceTest, EveryBuilder) {
  const auto [model, ranks] = GetParam();
  const Gradients expected = alone(model, ranks);
  for (const auto& builder : strategy::names()) {
    Options options;
    options.strategy = builder;
    expect_equivalent(model, fmt::format("lab:{}x1gbit", ranks), expected, options);
  }
}

TEST_P(EquivalenceTest, EveryTopology) {
  using strategy::Topology;
  const auto [model, ranks] = GetParam();
  const Gradients expected = alone(model, ranks);
  for (const Topology topology : {Topology::kRing, Topology::kHalvingDoubling, Topology::kTree, Topology::kHierarchical,
                                  Topology::kReduceScatter}) {
    for (const char* builder : {"allreduce", "partitioned-allreduce"}) {
      Options options;
      options.strategy = builder;
      expect_equivalent(model, fmt::format("lab:{}x1gbit", ranks), expected, options, [&](strategy::Strategy s) {
        s.id += fmt::format(" topology {}", static_cast<int>(topology));
        for (auto& variable : s.variables) {
          for (auto& part : variable.parts) {
            if (auto* all_reduce = std::get_if<strategy::AllReduce>(&part.synchronizer)) all_reduce->topology = topology;
          }
        }
        return s;
      });
    }
  }
}

TEST_P(EquivalenceTest, ServersOnHostsOfTheirOwn) {
  const auto [model, ranks] = GetParam();
  const Gradients expected = alone(model, ranks);
  for (const char* builder : {"ps", "ps-lb", "partitioned-ps", "parallax", "byteps", "allreduce"}) {
    Options options;
    options.strategy = builder;
    expect_equivalent(model, fmt::format("lab:{}x1gbit+2x10gbit/server", ranks), expected, options);
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
    const Gradients expected = alone(model, 4);
    for (const auto& builder : strategy::names()) {
      Options options;
      options.strategy = builder;
      expect_equivalent(model, "lab:2x1gbit/ranks=2", expected, options);
    }
  }
}

}  // namespace
}  // namespace entrain
