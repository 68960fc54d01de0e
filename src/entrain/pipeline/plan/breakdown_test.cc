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
  for (size_t d = 0; d < spans.size(); ++d) result[d].add(spans[d], wall);
  return result;
}

TEST(Breakdown, PartsSumToTheWallClock) {
  const Breakdown b = break_down(times_of(even(), 7));
  EXPECT_DOUBLE_EQ(b.wall, 7);
  EXPECT_DOUBLE_EQ(b.compute, 4);
  EXPECT_DOUBLE_EQ(b.bubble, 2);
  EXPECT_DOUBLE_EQ(b.imbalance, 0);
  EXPECT_DOUBLE_EQ(b.update, 1);
  EXPECT_NEAR(b.other, 0, 1e-12);
  EXPECT_NEAR(b.sum(), b.wall, 1e-12);
}

TEST(Breakdown, PartsAreMeansOverTheDevices) {
  auto spans = even();
  spans[0].push_back({K::kTransfer, 0, 0, 7, 8});
  spans[0].push_back({K::kTransfer, 0, 1, 8, 8.5});
  spans[1].push_back({K::kTransfer, 1, 0, 7, 7.5});
  spans[0].push_back({K::kRecompute, 0, 0, 9, 12});
  spans[1].push_back({K::kRecompute, 1, 0, 9, 10});
  const Breakdown b = break_down(times_of(spans, 14));
  EXPECT_DOUBLE_EQ(b.transfer, 1);
  EXPECT_DOUBLE_EQ(b.recompute, 2);
  EXPECT_DOUBLE_EQ(b.bubble + b.imbalance, 2);
  EXPECT_DOUBLE_EQ(b.other, 14 - b.sum());
  EXPECT_NEAR(b.other, 14 - 4 - 2 - 1 - 2 - 1, 1e-12);
  const auto json = to_json(b);
  EXPECT_EQ(json["transfer_s"], b.transfer);
  EXPECT_EQ(json["other_s"], b.other);
}

TEST(Breakdown, TimesAreAddedByKind) {
  DeviceTimes times;
  times.add({{K::kForward, 0, 0, 0, 1},
             {K::kForward, 2, 0, 1, 3},
             {K::kRecompute, 2, 0, 3, 4},
             {K::kBackward, 2, 0, 4, 8},
             {K::kBackward, 0, 0, 8, 16}},
            16);
  times.add({{K::kForward, 0, 0, 0, 2}}, 4);  // another step
  EXPECT_EQ(times.forward, 5);
  EXPECT_EQ(times.backward, 12);
  EXPECT_EQ(times.recompute, 1);
  EXPECT_EQ(times.busy(), 18);
  EXPECT_EQ(times.wall, 20);
}

// Device 1's only pass takes as long as the three of device 0: nobody would wait less if they were even.
TEST(Breakdown, CellsThatRanNoBackwardHaveNone) {
  const Breakdown b = break_down(times_of({{{K::kForward, 0, 0, 0, 1},
                                            {K::kWait, 0, 0, 1, 3},
                                            {K::kRecompute, 0, 0, 3, 3.5},
                                            {K::kBackward, 0, 0, 3.5, 4}},
                                           {{K::kWait, 1, 0, 0, 1}, {K::kForward, 1, 0, 1, 3}}},
                                          4));
  EXPECT_DOUBLE_EQ(b.imbalance, 0);
  EXPECT_DOUBLE_EQ(b.bubble, 1.5);
}

// Recomputing counts as busy, too; the wait is all imbalance where evening it out would end it.
TEST(Breakdown, ImbalanceIsAtMostTheWait) {
  std::vector<DeviceTimes> times(2);
  times[0].forward = 2;
  times[1].recompute = 8;
  times[0].waited = 3;
  const Breakdown uneven = break_down(times);
  EXPECT_DOUBLE_EQ(uneven.imbalance, 1.5);
  EXPECT_DOUBLE_EQ(uneven.bubble, 0);
  times[0].forward = 8;
  EXPECT_DOUBLE_EQ(break_down(times).imbalance, 0);
  EXPECT_DOUBLE_EQ(break_down(times).bubble, 1.5);
}

TEST(Breakdown, OneDeviceNeverWaits) {
  const Breakdown b = break_down(times_of({{{K::kForward, 0, 0, 0, 1}, {K::kBackward, 0, 0, 1, 3}}}, 3));
  EXPECT_EQ(b.bubble, 0);
  EXPECT_EQ(b.imbalance, 0);
  EXPECT_EQ(b.other, 0);
}

TEST(Breakdown, UnevenCellsShowAsImbalance) {
  auto spans = even();
  for (auto& span : spans[1]) {
    if (span.kind == K::kForward) span.end_s += 1;  // as if device 1's forwards took twice as long
  }
  const Breakdown b = break_down(times_of(spans, 9));
  EXPECT_DOUBLE_EQ(b.imbalance, 1);  // 6 seconds busy, 5 the mean
  EXPECT_DOUBLE_EQ(b.bubble, 1);
}

TEST(Breakdown, DeviceTimesAndSpansSurviveTheWire) {
  const auto times = times_of(even(), 7);
  const auto back = device_times_from_json(to_json(times));
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[1].waited, times[1].waited);
  EXPECT_EQ(back[1].busy(), times[1].busy());
  const auto spans = spans_from_json(to_json(even()));
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[1][1].kind, K::kForward);
  EXPECT_EQ(spans[1][1].end_s, 2);
}

TEST(Trace, SaysWhatWhenAndForWhichMicroBatch) {
  const auto trace =
      nlohmann::json::parse(chrome_trace({{}, {{K::kForward, 3, 2, 0.5, 0.75}, {K::kUpdate, -1, -1, 1, 3}}}));
  const auto& events = trace["traceEvents"];
  ASSERT_EQ(events.size(), 4U);  // two names of devices
  EXPECT_EQ(events[1]["args"]["name"], "device 1");
  EXPECT_EQ(events[2]["name"], "forward 2");
  EXPECT_EQ(events[2]["tid"], 3);
  EXPECT_EQ(events[2]["pid"], 1);
  EXPECT_DOUBLE_EQ(events[2]["ts"], 0.5e6);
  EXPECT_DOUBLE_EQ(events[2]["dur"], 0.25e6);
  EXPECT_EQ(events[3]["name"], "update");
  EXPECT_EQ(events[3]["tid"], 1);  // the device's own track
  EXPECT_DOUBLE_EQ(events[3]["dur"], 2e6);
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
