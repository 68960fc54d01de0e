#include "entrain/collective/cast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "entrain/base/log.h"
#include "entrain/collective/algorithms.h"
#include "entrain/collective/executor.h"
#include "entrain/collective/half.h"
#include "support/ranks.h"

namespace entrain::collective {
namespace {

using entrain::testing::run_ranks;
using transport::Transport;

template <typename T>
transport::Bytes bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// Normal, subnormal, huge, tiny, exact halves between two 16-bit neighbours, infinities.
std::vector<float> awkward(size_t n) {
  std::mt19937 rng(7);
  std::vector<float> values = {0,       -0.0f,   1,        1 + 0x1p-11f, 1 + 3 * 0x1p-11f, 65504,      65519,
                               65520,   1e9f,    -1e9f,    0x1p-24f,     0x1p-25f,         -3e-8f,     1e-30f,
                               6.1e-5f, 6.0e-5f, INFINITY, -INFINITY,    1 + 0x1p-8f,      1 + 0x1p-9f};
  std::uniform_int_distribution<int> exponent(-30, 18);
  std::normal_distribution<float> normal;
  while (values.size() < n) values.push_back(std::ldexp(normal(rng), exponent(rng)));
  return values;
}

uint16_t down(Type wire, float value) {
  if (wire == Type::kBFloat16) return float_to_bfloat16(value);
  return float_to_float16(std::isfinite(value) ? std::clamp(value, -65504.0f, 65504.0f) : value);
}
float up(Type wire, uint16_t value) {
  return wire == Type::kFloat16 ? float16_to_float(value) : bfloat16_to_float(value);
}

float value(int rank, size_t i) { return std::sin(static_cast<float>(i * (static_cast<size_t>(rank) + 1))); }

class Cast : public ::testing::TestWithParam<Type> {};

TEST_P(Cast, KernelsAgreeWithTheBits) {
  const Type wire = GetParam();
  const std::vector<float> before = awkward(1003);  // not a multiple of a vector's width
  std::vector<float> values = before, sum(1003, 1.0f), read(1003);
  std::vector<uint16_t> out(1003);
  encode(wire, {bytes_of(values)}, bytes_of(out).data());
  decode(wire, bytes_of(out), {bytes_of(read)});
  decode_add(wire, bytes_of(out), {bytes_of(sum)});
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_EQ(out[i], down(wire, before[i])) << before[i];
    ASSERT_EQ(values[i], up(wire, out[i])) << before[i];
    ASSERT_EQ(read[i], values[i]);
    ASSERT_EQ(sum[i], 1.0f + values[i]);
  }
}

// A message is many variables; whoever's memory is behind them stays as it is.
TEST_P(Cast, PiecesAreOneMessageAndNothingBehindThemIsTouched) {
  const Type wire = GetParam();
  for (const size_t n : {size_t{1}, size_t{8}, size_t{19}}) {
    const std::vector<float> before = awkward(40);
    std::vector<float> whole(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(n + 5)),
        one = before, other = before;
    std::vector<uint16_t> expected(n + 5), out(40, 7);
    encode(wire, {bytes_of(whole)}, bytes_of(expected).data());
    const auto first = bytes_of(one).first(4 * n), second = bytes_of(other).subspan(4 * n, 20);
    encode(wire, {first, {}, second}, bytes_of(out).data());
    expected.resize(40, 7);
    EXPECT_EQ(out, expected);
    EXPECT_TRUE(std::equal(one.begin() + static_cast<std::ptrdiff_t>(n), one.end(),
                           before.begin() + static_cast<std::ptrdiff_t>(n)));
    EXPECT_TRUE(std::equal(other.begin() + static_cast<std::ptrdiff_t>(n) + 5, other.end(),
                           before.begin() + static_cast<std::ptrdiff_t>(n) + 5));

    std::vector<float> a(n + 1, 9), b(6, 9);
    const auto halves = std::as_bytes(std::span(out)).first(2 * (n + 5));
    const std::vector<transport::Bytes> pieces = {bytes_of(a).first(4 * n), bytes_of(b).first(20)};
    decode(wire, halves, pieces);
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(a[i], up(wire, out[i]));
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(b[i], up(wire, out[n + i]));
    a.assign(n + 1, 9), b.assign(6, 9);
    decode_add(wire, halves, pieces);
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(a[i], 9 + up(wire, out[i]));
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(b[i], 9 + up(wire, out[n + i]));
    EXPECT_EQ(a[n], 9);
    EXPECT_EQ(b[5], 9);

    std::vector<float> values(n + 1, 1.001f), errors(n + 1, 1e-4f);
    feed_back(wire, bytes_of(values).first(4 * n), bytes_of(errors).first(4 * n));
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(values[i], up(wire, down(wire, 1.001f + 1e-4f))) << i;
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(errors[i], 1.001f + 1e-4f - values[i]) << i;
    EXPECT_EQ(values[n], 1.001f);
    EXPECT_EQ(errors[n], 1e-4f);
  }
}

// A gradient of 1e6 became infinity, and one step later all parameters were NaN.
TEST(CastToFloat16, CutsFiniteValuesAndKeepsWhatIsNotFinite) {
  for (const size_t n : {3, 8, 8 + 3, 64}) {  // in whole vectors and after them
    for (size_t at = 0; at < n; ++at) {
      std::vector<float> values(n, 1.5f);
      std::vector<uint16_t> out(n);
      const auto sent = [&](float value) {
        values.assign(n, 1.5f);
        values[at] = value;
        const size_t cut = encode(Type::kFloat16, {bytes_of(values)}, bytes_of(out).data());
        EXPECT_EQ(std::count(values.begin(), values.end(), 1.5f), static_cast<std::ptrdiff_t>(n) - 1);
        return std::pair(values[at], cut);
      };
      EXPECT_EQ(sent(1e6f), std::pair(65504.0f, size_t{1}));
      EXPECT_EQ(sent(-1e6f), std::pair(-65504.0f, size_t{1}));
      EXPECT_EQ(sent(std::numeric_limits<float>::max()), std::pair(65504.0f, size_t{1}));
      EXPECT_EQ(sent(65520), std::pair(65504.0f, size_t{1})) << "the first that would round to infinity";
      EXPECT_EQ(sent(65519), std::pair(65504.0f, size_t{0})) << "rounds to it";
      EXPECT_EQ(sent(INFINITY), std::pair(INFINITY, size_t{0}));
      EXPECT_EQ(sent(-INFINITY), std::pair(-INFINITY, size_t{0}));
      EXPECT_TRUE(std::isnan(sent(NAN).first));
    }
  }
}

TEST(CastToFloat16, ErrorFeedbackSendsLaterWhatWasCut) {
  std::vector<float> values(19, 1.0f), errors(19, 0.0f);
  values[3] = 100'000;
  values[17] = -100'000;
  EXPECT_EQ(feed_back(Type::kFloat16, bytes_of(values), bytes_of(errors)), 2u);
  EXPECT_EQ(values[3], 65504);
  EXPECT_EQ(errors[3], 100'000 - 65504);
  EXPECT_EQ(errors[17], -errors[3]);
  values.assign(19, 0);
  EXPECT_EQ(feed_back(Type::kFloat16, bytes_of(values), bytes_of(errors)), 0u);
  EXPECT_EQ(values[3] + errors[3], 100'000 - 65504);
}

// Else one bad batch would spoil every later step of a job that skips it.
TEST_P(Cast, ErrorFeedbackForgetsWhatIsNotFinite) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    std::vector<float> values(19, bad), errors(19, 0.25f);
    feed_back(GetParam(), bytes_of(values), bytes_of(errors));
    for (const float value : values) EXPECT_FALSE(std::isfinite(value));
    EXPECT_EQ(errors, std::vector<float>(19, 0));
  }
}

TEST(CastToFloat16, WhatWasCutIsCountedAndSaidOnce) {
  const uint64_t before = saturated_values();
  init_logging(-1);
  ::testing::internal::CaptureStderr();
  run_ranks(2, [&](int rank, Transport& transport) {
    std::vector<float> data(100, 1.0f);
    data[99] = rank == 1 ? 1e6f : 100.0f;
    RunOptions options;
    options.wire = Type::kFloat16;
    options.what = "sum of a test";
    execute(rooted({0, 1}, 0, 2), Buffer({bytes_of(data)}), options, transport);
    EXPECT_EQ(data[99], 65504);
    EXPECT_EQ(data[0], 2);
  });
  EXPECT_EQ(saturated_values() - before, 1u + 1u) << "what rank 1 sent, and its sum with rank 0's 100";
  const std::string said = ::testing::internal::GetCapturedStderr();
  const size_t at = said.find("beyond the range of float16");
  EXPECT_EQ(at == std::string::npos, before > 0) << said;
  EXPECT_EQ(said.find("beyond the range of float16", at == std::string::npos ? at : at + 1),
            std::string::npos)
      << said;
}

TEST_P(Cast, ErrorFeedbackLosesNothing) {
  const Type wire = GetParam();
  // A gradient of 1 + 2^-13 is 1 on the wire; with feedback the small part arrives all the same.
  std::vector<float> error(11, 0), sent(11, 0);
  for (int step = 0; step < 64 * 128; ++step) {
    std::vector<float> gradient(11, 1 + 0x1p-13f);
    feed_back(wire, bytes_of(gradient), bytes_of(error));
    for (size_t i = 0; i < sent.size(); ++i) sent[i] += gradient[i] - 1;
  }
  for (const float s : sent) EXPECT_NEAR(s, 1, 0.02);
}

TEST_P(Cast, EveryAlgorithmSumsWithinRoundingAndAllRanksHoldTheSameBits) {
  const Type wire = GetParam();
  const double unit = wire == Type::kFloat16 ? 0x1p-11 : 0x1p-8;
  const int n = 4;
  struct Case {
    Schedule schedule;
    int workers;  // the first of the ranks
  };
  for (const auto& [schedule, workers] :
       {Case{ring({0, 1, 2, 3}, n), 4}, Case{direct({0, 1, 2, 3}, n), 4},
        Case{halving_doubling({0, 1, 2, 3}, n), 4}, Case{tree({0, 1, 2, 3}, n), 4},
        Case{hierarchical({{0, 1}, {2, 3}}, n), 4}, Case{rooted({0, 1, 2, 3}, 2, n), 4},
        Case{rooted({0, 1, 2}, 3, n), 3}}) {
    std::vector<std::vector<float>> results(n);
    run_ranks(n, [&](int rank, Transport& transport) {
      std::vector<float>& data = results[rank];
      data.resize(4099);
      for (size_t i = 0; i < data.size(); ++i) data[i] = value(rank, i);
      RunOptions options;
      options.segment_bytes = 1024;
      options.wire = wire;
      execute(schedule, Buffer({bytes_of(data)}), options, transport);
    });
    for (int rank = 1; rank < n; ++rank) EXPECT_EQ(results[rank], results[0]) << schedule.name << " " << rank;
    for (size_t i = 0; i < results[0].size(); ++i) {
      double sum = 0;
      for (int r = 0; r < workers; ++r) sum += value(r, i);
      // Each of at most n + 1 roundings is off by at most half a unit of a partial sum of at most n.
      ASSERT_NEAR(results[0][i], sum, (n + 1) * n * unit) << schedule.name << " element " << i;
    }
  }
}

TEST_P(Cast, HalfTheBytesTravel) {
  const Type wire = GetParam();
  run_ranks(2, [&](int, Transport& transport) {
    std::vector<float> data(1000, 1.0f);
    RunOptions options;
    options.wire = wire;
    const uint64_t before = transport.bytes_sent();
    execute(ring({0, 1}, 2), Buffer({bytes_of(data)}), options, transport);
    EXPECT_EQ(transport.bytes_sent() - before, 2000u);
    EXPECT_EQ(data, std::vector<float>(1000, 2.0f));
  });
}

INSTANTIATE_TEST_SUITE_P(Wire, Cast, ::testing::Values(Type::kFloat16, Type::kBFloat16));

}  // namespace
}  // namespace entrain::collective
