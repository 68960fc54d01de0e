// Any synchronous strategy on any number of ranks gives the gradient that one process gives
// on the whole batch: every builder, every topology, dense and sparse models.
#include <gtest/gtest.h>

#include "entrain/strategy/builders/registry.h"
#include "entrain/trainer/server.h"
#include "support/equivalence.h"
#include "support/jobs.h"

namespace entrain {
namespace {

using testing::Gradients;

void expect_equivalent(const std::string& model, const std::string& cluster, const std::string& strategy,
                       const Gradients& expected,
                       const std::function<strategy::Strategy(strategy::Strategy)>& change = nullptr) {
  testing::run_job(cluster, [&](Context& context) {
    if (!context.trains()) return serve(context);
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

}  // namespace
}  // namespace entrain
