#include "entrain/strategy/asynchrony.h"

#include <gmock/gmock.h>

#include "entrain/base/error.h"
#include "entrain/strategy/stored.h"

namespace entrain::strategy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ParameterServer server(bool sync, int staleness) {
  ParameterServer ps{"10.0.0.1"};
  ps.sync = sync;
  ps.staleness = staleness;
  return ps;
}

Strategy of(const std::vector<Synchronizer>& synchronizers) {
  Strategy strategy;
  for (const auto& each : synchronizers) {
    strategy.variables.push_back({fmt::format("v{}", strategy.variables.size()), std::nullopt, {{each, {}}}});
  }
  return strategy;
}

std::string refusal(const std::vector<Synchronizer>& synchronizers) {
  try {
    staleness_of(of(synchronizers));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Asynchrony, IsOneSettingOfTheJob) {
  EXPECT_EQ(staleness_of(of({})), std::nullopt);
  EXPECT_EQ(staleness_of(of({server(true, 0), AllReduce{}, AllGather{}})), std::nullopt);
  EXPECT_EQ(staleness_of(of({server(true, 3), server(true, 3)})), 3);
  EXPECT_EQ(staleness_of(of({server(false, 0), server(false, 0)})), -1);
}

TEST(Asynchrony, VariablesThatDifferAreRefused) {
  EXPECT_THAT(refusal({server(true, 3), server(true, 2)}),
              AllOf(HasSubstr("v0 is 3 steps stale and variable v1 2 steps stale"),
                    HasSubstr("the same sync and staleness")));
  EXPECT_THAT(refusal({AllReduce{}, server(false, 0)}), HasSubstr("v0 is synchronous and variable v1 async"));
  EXPECT_THAT(refusal({server(true, 0), server(true, 1)}), HasSubstr("allowed"));
}

TEST(Asynchrony, ContradictionsAreRefused) {
  EXPECT_THAT(refusal({server(false, 2)}), HasSubstr("sync is false and staleness 2"));
  EXPECT_THAT(refusal({server(true, -2)}), HasSubstr("staleness is -2, allowed: 0 or more"));
  ParameterServer compressed = server(false, 0);
  compressed.compressor = Compressor::kBf16;
  EXPECT_THAT(refusal({compressed}), HasSubstr("compressor is bf16"));
}

// As AutoDist's builder PS(sync=False) writes it: what is false or 0 is not there.
TEST(Asynchrony, AutoDistsFileIsUnderstood) {
  const auto strategy = from_json(
      R"({"node_config": [{"var_name": "w", "PSSynchronizer": {"reduction_destination": "10.0.0.1:CPU:0"}}]})");
  EXPECT_EQ(staleness_of(strategy), -1);
}

}  // namespace
}  // namespace entrain::strategy
