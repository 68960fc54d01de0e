#include "entrain/plan/passes.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

namespace entrain::plan {
namespace {

using pipeline::Kind;
using pipeline::Pass;
using pipeline::Remat;
using pipeline::Work;
using strategy::Cell;
using strategy::Shape;

std::string picture(const Shape& shape, int64_t examples = 64) {
  return draw(make_passes(shape, assign(shape, examples)));
}

TEST(Passes, DataParallelRanksRunTheirOwnMicroBatches) {
  EXPECT_EQ(picture({{{0, 4, {0, 1}}}, 4, "1f1b", Remat::kNever}),
            "rank 0 | F0/0 B0/0 F2/0 B2/0\n"
            "rank 1 | F1/0 B1/0 F3/0 B3/0\n");
}

TEST(Passes, OfAPipelineAreThoseOfItsSchedule) {
  EXPECT_EQ(picture({{{0, 2, {0}}, {2, 4, {1}}}, 3, "gpipe", Remat::kExceptLast}),
            "rank 0 | F0/0 F1/0 F2/0 B2/0 R1/0 R0/0\n"
            "rank 1 | F0/1 F1/1 F2/1 B2/1 R1/1 R0/1\n");
  EXPECT_EQ(picture({{{0, 2, {1}}, {2, 4, {0}}}, 3, "1f1b", Remat::kNever}),
            "rank 0 | F0/1 B0/1 F1/1 B1/1 F2/1 B2/1\n"
            "rank 1 | F0/0 F1/0 B0/0 F2/0 B1/0 B2/0\n");
}

TEST(Passes, RowsOfAPipelineRunApart) {
  EXPECT_EQ(picture({{{0, 2, {0, 2}}, {2, 4, {1, 3}}}, 4, "1f1b", Remat::kAlways}),
            "rank 0 | F0/0 F2/0 R0/0 R2/0\n"
            "rank 1 | F0/1 R0/1 F2/1 R2/1\n"
            "rank 2 | F1/0 F3/0 R1/0 R3/0\n"
            "rank 3 | F1/1 R1/1 F3/1 R3/1\n");
}

TEST(Passes, AnInterleavedScheduleKeepsItsPattern) {
  EXPECT_EQ(picture({{{0, 1, {0}}, {1, 2, {1}}, {2, 3, {0}}, {3, 4, {1}}}, 2, "interleaved", Remat::kNever}),
            "rank 0 | F0/0 F1/0 F0/2 F1/2 B0/2 B1/2 B0/0 B1/0\n"
            "rank 1 | F0/1 F1/1 F0/3 B0/3 F1/3 B1/3 B0/1 B1/1\n");
}

TEST(Passes, RanksOfAWideCellFeedANarrowOne) {
  // "2-1": rank 2 takes what either sends, and goes back as soon as it can.
  EXPECT_EQ(picture({{{0, 1, {0, 1}}, {1, 2, {2}}}, 4, "1f1b", Remat::kNever}),
            "rank 0 | F0/0 F2/0 B0/0 B2/0\n"
            "rank 1 | F1/0 F3/0 B1/0 B3/0\n"
            "rank 2 | F0/1 B0/1 F1/1 B1/1 F2/1 B2/1 F3/1 B3/1\n");
}

TEST(Passes, AnInterleavedScheduleKeepsItsPatternOverManyMicroBatches) {
  // Forwards and backwards alternate, two micro-batches per cell: a scheduler that takes backwards first
  // would run F3/0 after F2/0 and B1/0 after B0/0.
  EXPECT_EQ(picture({{{0, 1, {0}}, {1, 2, {1}}, {2, 3, {0}}, {3, 4, {1}}}, 4, "interleaved", Remat::kNever}),
            "rank 0 | F0/0 F1/0 F0/2 F1/2 F2/0 B0/2 F3/0 B1/2 F2/2 B0/0 F3/2 B1/0 B2/2 B3/2 B2/0 B3/0\n"
            "rank 1 | F0/1 F1/1 F0/3 B0/3 F1/3 B1/3 F2/1 B0/1 F3/1 B1/1 F2/3 B2/3 F3/3 B3/3 B2/1 B3/1\n");
  EXPECT_EQ(picture({{{0, 1, {0}}, {1, 2, {0}}}, 3, "interleaved", Remat::kNever}),
            "rank 0 | F0/0 F0/1 B0/1 F1/0 B0/0 F1/1 B1/1 F2/0 B1/0 F2/1 B2/1 B2/0\n");
}

TEST(Passes, ARowThatDoesNotRepeatIsScheduledBySlots) {
  // Cells 0 and 2 share rank 0, but cell 3 is on rank 2 and not on rank 1: no pattern fits.
  EXPECT_EQ(picture({{{0, 1, {0}}, {1, 2, {1}}, {2, 3, {0}}, {3, 4, {2}}}, 2, "interleaved", Remat::kNever}),
            "rank 0 | F0/0 F1/0 F0/2 F1/2 B0/2 B1/2 B0/0 B1/0\n"
            "rank 1 | F0/1 F1/1 B0/1 B1/1\n"
            "rank 2 | F0/3 B0/3 F1/3 B1/3\n");
}

TEST(Passes, ARankThatFeedsTwoHoldsAsManyMicroBatchesAsThereAreReplicasBehindIt) {
  // Slots:   0  1  2  3 4 5 6 7 8 9 10
  //   rank 0 F0 F1 F2 .[B0  [B1  [B2  F3     three in flight, then backwards first
  //   rank 1    F0[B0  F2[B2
  //   rank 2       F1[B1
  const std::vector<Cell> cells{{0, 1, {0}}, {1, 2, {1, 2}}};
  EXPECT_EQ(picture({cells, 6, "1f1b", Remat::kNever}),
            "rank 0 | F0/0 F1/0 F2/0 B0/0 B1/0 B2/0 F3/0 F4/0 F5/0 B3/0 B4/0 B5/0\n"
            "rank 1 | F0/1 B0/1 F2/1 B2/1 F4/1 B4/1\n"
            "rank 2 | F1/1 B1/1 F3/1 B3/1 F5/1 B5/1\n");
  EXPECT_EQ(picture({cells, 4, "gpipe", Remat::kNever}),
            "rank 0 | F0/0 F1/0 F2/0 F3/0 B2/0 B3/0 B1/0 B0/0\n"
            "rank 1 | F0/1 F2/1 B2/1 B0/1\n"
            "rank 2 | F1/1 F3/1 B3/1 B1/1\n");
}

// Runs the lists: a pass may run when what it needs has run. Returns how many did not.
size_t stuck(const std::vector<std::vector<Pass>>& passes, int cells) {
  std::set<std::tuple<int, int, int>> done;  // kind, cell, micro-batch
  std::vector<size_t> at(passes.size());
  const auto ran = [&](Kind kind, int cell, int m) {
    return done.count({static_cast<int>(kind), cell, m}) != 0;
  };
  const auto may = [&](const Work& w) {
    if (w.kind == Kind::kForward) return w.cell == 0 || ran(Kind::kForward, w.cell - 1, w.micro_batch);
    return ran(Kind::kForward, w.cell, w.micro_batch) &&
           (w.cell == cells - 1 || ran(Kind::kBackward, w.cell + 1, w.micro_batch));
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < passes.size(); ++rank) {
      while (at[rank] < passes[rank].size() && may(passes[rank][at[rank]].work)) {
        const Work& w = passes[rank][at[rank]++].work;
        done.insert({static_cast<int>(w.kind), w.cell, w.micro_batch});
        moved = true;
      }
    }
  }
  size_t left = 0;
  for (size_t rank = 0; rank < passes.size(); ++rank) left += passes[rank].size() - at[rank];
  return left;
}

TEST(Passes, OfAnyShapeRunEveryPassOnceWhereItsReplicaIsAndNeverDeadlock) {
  std::mt19937 random(11);
  const auto pick = [&](int most) { return std::uniform_int_distribution<int>(0, most - 1)(random); };
  for (int trial = 0; trial < 300; ++trial) {
    Shape shape;
    shape.schedule = std::vector<std::string>{"gpipe", "1f1b", "interleaved"}[size_t(pick(3))];
    shape.remat = static_cast<pipeline::Remat>(pick(3));
    for (int c = 0, cells = 1 + pick(4); c < cells; ++c) {
      Cell cell{c, c + 1, {}};
      while (cell.ranks.empty()) {
        for (int rank = 0; rank < 4; ++rank) {
          if (pick(2) == 0) cell.ranks.push_back(rank);
        }
      }
      shape.cells.push_back(cell);
    }
    shape.micro_batches = shape.most_replicas() + pick(6);
    const Assignment assignment = assign(shape, 64);
    const auto passes = make_passes(shape, assignment);

    size_t count = 0;
    std::map<std::pair<int, int>, int> last_forward;  // cell and rank: its last micro-batch
    for (int c = 0; c < assignment.cells(); ++c) {
      for (int m = 0; m < assignment.count(); ++m) {
        last_forward[{c, assignment.rank_of[size_t(c)][size_t(m)]}] = m;
      }
    }
    for (size_t rank = 0; rank < passes.size(); ++rank) {
      for (const Pass& pass : passes[rank]) {
        ++count;
        const auto [kind, cell, m] = pass.work;
        ASSERT_EQ(assignment.rank_of[size_t(cell)][size_t(m)], static_cast<int>(rank));
        const bool kept = shape.remat == Remat::kNever || (shape.remat == Remat::kExceptLast &&
                                                           last_forward[{cell, static_cast<int>(rank)}] == m);
        ASSERT_EQ(pass.recompute, !kept);
      }
    }
    ASSERT_EQ(count, size_t(2 * assignment.cells() * assignment.count()));
    ASSERT_EQ(stuck(passes, assignment.cells()), 0U) << draw(passes);
  }
}

TEST(Passes, AReplicaOfOneForwardOneBackwardHoldsNoMoreThanThePipelineNeeds) {
  const Shape shape{{{0, 1, {0, 1, 2}}, {1, 2, {3}}}, 12, "1f1b", Remat::kNever};
  const auto passes = make_passes(shape, assign(shape, 12));
  for (size_t rank = 0; rank < passes.size(); ++rank) {
    int in_flight = 0, most = 0;
    for (const Pass& pass : passes[rank]) {
      in_flight += pass.work.kind == Kind::kForward ? 1 : -1;
      most = std::max(most, in_flight);
    }
    EXPECT_LE(most, rank == 3 ? 1 : 2) << draw(passes);  // ceil((3 + 1) / 3) = 2
  }
}

}  // namespace
}  // namespace entrain::plan
