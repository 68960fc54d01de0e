#include "entrain/pipeline/plan/breakdown.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace entrain::pipeline {
namespace {

using K = Span::Kind;

// gpipe, K = 2, M = 2, a second a pass:   device 0 | F0 F1 .. B1 B0 | update
//                                         device 1 | .. F0 F1 B1 B0 .. -- as if passes were equal
std::vector<std::vector<Span>> even() {
  return {{{K::kForward, 0, 0, 0, 1},
           {K::kForward, 0, 1, 1, 2},
           {K::kWait, 0, 1, 2, 4},
           {K::kBackward, 0, 1, 4, 5},
           {K::kBackward, 0, 0, 5, 6},
           {K::kUpdate, -1, -1, 6, 7}},
          {{K::kWait, 1, 0, 0, 1},
           {K::kForward, 1, 0, 1, 2},
           {K::kForward, 1, 1, 2, 3},
           {K::kBackward, 1, 1, 3, 4},
           {K::kBackward, 1, 0, 4, 5},
           {K::kWait, -1, -1, 5, 6},
           {K::kUpdate, -1, -1, 6, 7}}};
}

std::vector<DeviceTimes> times_of(const std::vector<std::vector<Span>>& spans, double wall) {
  std::vector<DeviceTimes> result(spans.size());
  for (size_t d = 0; d < spans.size(); ++d) result[d].add(spans[d], wall, static_cast<int>(spans.size()));
  return result;
}

TEST(Breakdown, PartsSumToTheWallClock) {
  const Breakdown b = break_down(make_schedule("gpipe", 2, 2), times_of(even(), 7));
  EXPECT_DOUBLE_EQ(b.wall, 7);
  EXPECT_DOUBLE_EQ(b.compute, 4);
  EXPECT_DOUBLE_EQ(b.bubble, 2);
  EXPECT_DOUBLE_EQ(b.imbalance, 0);
  EXPECT_DOUBLE_EQ(b.update, 1);
  EXPECT_NEAR(b.other, 0, 1e-12);
  EXPECT_NEAR(b.sum(), b.wall, 1e-12);
}

TEST(Breakdown, UnevenCellsShowAsImbalance) {
  auto spans = even();
  for (auto& span : spans[1]) {
    if (span.kind == K::kForward) span.end_s += 1;  // as if device 1's forwards took twice as long
  }
  const Breakdown b = break_down(make_schedule("gpipe", 2, 2), times_of(spans, 9));
  EXPECT_GT(b.imbalance, 0);
}

TEST(Breakdown, DeviceTimesAndSpansSurviveTheWire) {
  const auto times = times_of(even(), 7)[1];
  const auto back = device_times_from_json(to_json(times));
  EXPECT_EQ(back.waited, times.waited);
  EXPECT_EQ(back.cell_forward, times.cell_forward);
  const auto spans = spans_from_json(to_json(even()));
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[1][1].kind, K::kForward);
  EXPECT_EQ(spans[1][1].end_s, 2);
}

TEST(Trace, HasATrackForEachCell) {
  const auto trace = nlohmann::json::parse(chrome_trace(even()));
  int first = 0, second = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    (event["tid"] == 0 ? first : second)++;
  }
  EXPECT_GT(first, 0);
  EXPECT_GT(second, 0);
}

}  // namespace
}  // namespace entrain::pipeline
