#include "entrain/pipeline/plan/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/base/error.h"

namespace entrain::pipeline {
namespace {

std::vector<CellCost> equal_cells(int cells) {
  CellCost cost;
  cost.forward_s = cost.recompute_s = 1;
  cost.backward_s = 2;
  cost.boundary_bytes = 100;
  return std::vector<CellCost>(cells, cost);
}

double sum_of_parts(const Timeline& t) {
  return t.compute_s + t.recompute_s + t.imbalance_s + t.bubble_s + t.transfer_s;
}

TEST(Timeline, EqualCellsGiveTheBubbleFormula) {
  for (int k = 1; k <= 8; ++k) {
    for (const int m : {1, 2, 5, 32}) {
      for (const char* name : {"gpipe", "1f1b"}) {
        const auto t = run_schedule(make_schedule(name, k, m), equal_cells(k));
        EXPECT_DOUBLE_EQ(t.makespan_s, 3.0 * (m + k - 1));
        EXPECT_NEAR(t.bubble_share(), (k - 1.0) / (m + k - 1.0), 1e-12);
        EXPECT_EQ(t.imbalance_s, 0);
        EXPECT_EQ(t.transfer_s, 0);
      }
    }
  }
}

// Three cells of a third of the work each, but the devices wait (K-1) passes of one cell only.
TEST(Timeline, InterleavingShrinksTheBubble) {
  auto cells = equal_cells(6);
  for (auto& c : cells) c.forward_s /= 3, c.backward_s /= 3;
  EXPECT_DOUBLE_EQ(run_schedule(make_schedule("interleaved", 2, 4, 3), cells).makespan_s, 3.0 * 4 + 1);
}

TEST(Timeline, RematAddsForwardsToBackward) {
  const auto schedule = make_schedule("gpipe", 2, 4);
  const auto step = [&](Remat remat) {
    return run_schedule(schedule, equal_cells(2), {.remat = remat}).makespan_s;
  };
  EXPECT_DOUBLE_EQ(step(Remat::kNever), 3 * 5);
  EXPECT_DOUBLE_EQ(step(Remat::kAlways), 4 * 5);
  EXPECT_DOUBLE_EQ(step(Remat::kExceptLast), 4 * 5 - 1);  // device 1 saves one, device 0 waits for device 1
}

// Device 0 recomputes while device 1 is still busy with the gradient that device 0 waits for.
TEST(Timeline, EarlyRecomputeHidesInTheBubble) {
  TimelineOptions options{.remat = Remat::kAlways};
  const auto schedule = make_schedule("gpipe", 2, 1);
  EXPECT_DOUBLE_EQ(run_schedule(schedule, equal_cells(2), options).makespan_s, 1 + 1 + 3 + 3);
  options.early_recompute = true;
  EXPECT_DOUBLE_EQ(run_schedule(schedule, equal_cells(2), options).makespan_s, 1 + 1 + 3 + 2);
}

TEST(Timeline, ASlowDeviceIsImbalance) {
  const TimelineOptions options{.speed = {1, 0.5}};
  const auto t = run_schedule(make_schedule("gpipe", 2, 8), equal_cells(2), options);
  EXPECT_THAT(t.busy_s, testing::ElementsAre(24, 48));
  EXPECT_DOUBLE_EQ(t.imbalance_s, 12);
  EXPECT_DOUBLE_EQ(t.makespan_s, 48 + 3);  // device 1 never waits between its first and last pass
}

// 100 bytes at 0.005 s each: half a forward. Only the first and the last transfer are on the path.
TEST(Timeline, TransfersOverlapWithComputing) {
  TimelineOptions options;
  options.link_s_per_byte = 0.005;
  const auto schedule = make_schedule("gpipe", 2, 8);
  EXPECT_DOUBLE_EQ(run_schedule(schedule, equal_cells(2), options).transfer_s, 1);
  options.link_latency_s = 0.25;
  EXPECT_DOUBLE_EQ(run_schedule(schedule, equal_cells(2), options).transfer_s, 1.5);
}

TEST(Timeline, ASlowLinkBinds) {
  TimelineOptions options;
  options.link_s_per_byte = 0.1;  // 10 s a boundary against 3 s of computing
  const auto t = run_schedule(make_schedule("gpipe", 2, 8), equal_cells(2), options);
  EXPECT_DOUBLE_EQ(t.makespan_s, 1 + 8 * 10 + 1 + 2 + 8 * 10 + 2);
}

TEST(Timeline, PartsSumToTheMakespanAndNoneIsNegative) {
  for (const char* name : {"gpipe", "1f1b", "interleaved"}) {
    for (const Remat remat : {Remat::kNever, Remat::kExceptLast, Remat::kAlways}) {
      const int chunks = std::string(name) == "interleaved" ? 2 : 1;
      auto cells = equal_cells(3 * chunks);
      for (size_t i = 0; i < cells.size(); ++i) cells[i].forward_s += 0.3 * static_cast<double>(i % 4);
      TimelineOptions options{.remat = remat, .speed = {1, 1.5, 0.7}, .link_s_per_byte = 0.003};
      const auto t = run_schedule(make_schedule(name, 3, 5, chunks), cells, options);
      EXPECT_NEAR(sum_of_parts(t), t.makespan_s, 1e-9);
      for (const double part : {t.compute_s, t.recompute_s, t.imbalance_s, t.bubble_s, t.transfer_s}) {
        EXPECT_GE(part, -1e-9);
      }
      EXPECT_EQ(t.recompute_s > 0, remat != Remat::kNever);
    }
  }
}

TEST(Timeline, EventsOfADeviceDoNotOverlap) {
  const auto t = run_schedule(make_schedule("1f1b", 4, 6), equal_cells(4),
                              {.remat = Remat::kAlways, .early_recompute = true});
  EXPECT_EQ(t.events.size(), 4u * 6 * 3);
  for (size_t i = 1; i < t.events.size(); ++i) {
    if (t.events[i].device != t.events[i - 1].device) continue;
    EXPECT_LE(t.events[i - 1].end_s, t.events[i].begin_s);
  }
}

TEST(Timeline, ABackwardAheadOfItsForwardIsADeadlock) {
  auto schedule = make_schedule("gpipe", 1, 2);
  std::swap(schedule.work[0].front(), schedule.work[0].back());
  EXPECT_THROW(run_schedule(schedule, equal_cells(1)), Error);
}

TEST(Timeline, RefusesCostsThatDoNotMatch) {
  EXPECT_THROW(run_schedule(make_schedule("gpipe", 2, 1), equal_cells(3)), InputError);
  EXPECT_THROW(run_schedule(make_schedule("gpipe", 2, 1), equal_cells(2), {.speed = {1}}), InputError);
  EXPECT_THROW(run_schedule(make_schedule("gpipe", 2, 1), equal_cells(2), {.speed = {1, 0}}), InputError);
}

}  // namespace
}  // namespace entrain::pipeline
