#include "strategies/tune_certificate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "entrain/strategy/shape_text.h"

namespace entrain::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Two layers, 10 ms forward and 20 ms backward for each of 8 examples; links that carry much.
dataset::Domain domain() {
  dataset::Domain d;
  d.cluster = cluster::parse("lab:2x100gbit");
  d.settings.batch_size = 4;
  for (int l = 0; l < 2; ++l) {
    d.graph.variables.push_back({.name = fmt::format("w{}", l), .shape = {10}, .ready_order = 1 - l});
    d.graph.layers.push_back(
        {.name = "layer", .variables = {l}, .times = {{1, 0.01, 0.02}}, .output_bytes = 4});
  }
  d.graph.batch_size = 4;
  return d;
}

dataset::Trial trial(const std::string& shape, double seconds, const std::string& origin) {
  dataset::Trial t;
  t.strategy.id = shape;
  t.strategy.shape = strategy::parse_shape(shape, 2);
  t.strategy.variables = {{"w0", std::nullopt, {{strategy::AllReduce{}, {}}}},
                          {"w1", std::nullopt, {{strategy::AllReduce{}, {}}}}};
  t.seconds = {seconds};
  t.origin = origin;
  return t;
}

nlohmann::json certificate(double alone_s, double pipeline_s, double cores = 0) {
  dataset::Domain d = domain();
  d.trials = {trial("@0 remat=never", alone_s, tuner::kAloneOrigin),
              trial("0@0 1@1 m=8 remat=never", pipeline_s, "planned")};
  return certificate_of(tuner::summarize(d.trials), d, cores);
}

// All work is 0.48 s: 0.24 s on two ranks.
TEST(TuneCertificate, ComparesWithTheBoundAndWithOneHost) {
  const auto c = certificate(0.5, 0.3);
  EXPECT_NEAR(c["compute_s"].get<double>(), 0.24, 1e-9);
  EXPECT_GE(c["bound_s"].get<double>(), 0.24);
  EXPECT_LT(c["bound_s"].get<double>(), 0.3);
  EXPECT_DOUBLE_EQ(c["ratio"].get<double>(), 0.3 / c["bound_s"].get<double>());
  EXPECT_DOUBLE_EQ(c["vs_one_host"].get<double>(), 0.5 / 0.3);
  EXPECT_EQ(c["shape"], "0@0 1@1 m=8 remat=never");
  EXPECT_EQ(c["times_scaled_by"], 1);
  EXPECT_THAT(certificate_text(c), HasSubstr("2 hosts: 1.67x one host alone, which takes 500 ms."));
  EXPECT_THAT(certificate_text(c), HasSubstr("Certificate: 300 ms per update."));
}

TEST(TuneCertificate, SaysToUseOneHostWhereThatIsFastest) {
  const auto c = certificate(0.5, 0.6);
  EXPECT_EQ(c["hosts_used"], 1);
  EXPECT_THAT(certificate_text(c),
              HasSubstr("Use one host: nothing that was tried on more of them is faster than 500 ms."));
  EXPECT_THAT(certificate_text(c), Not(HasSubstr("2 hosts")));
}

// One host did 0.48 s of passes in 0.24 s: the profile was taken on a busy machine.
TEST(TuneCertificate, TimesThatOneHostHasProvedTooLongAreScaled) {
  const auto c = certificate(0.24, 0.2);
  EXPECT_NEAR(c["times_scaled_by"].get<double>(), 0.5, 0.01);
  EXPECT_NEAR(c["compute_s"].get<double>(), 0.12, 0.01);
  EXPECT_GE(c["ratio"].get<double>(), 1);
}

TEST(TuneCertificate, EmulatedHostsComputeNoFasterThanTheCoresThatTheyShare) {
  EXPECT_NEAR(certificate(0.5, 0.49, 1)["compute_s"].get<double>(), 0.48, 1e-9);
}

}  // namespace
}  // namespace entrain::app
