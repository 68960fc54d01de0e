#include "entrain/pipeline/plan/memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "entrain/base/error.h"

namespace entrain::pipeline {
namespace {

std::vector<CellCost> cells(int count, int64_t input, int64_t internal, int64_t parameters = 0) {
  CellCost cost;
  cost.input_bytes = input;
  cost.internal_bytes = internal;
  cost.parameter_bytes = parameters;
  return std::vector<CellCost>(count, cost);
}

TEST(Memory, CountedAlongTheScheduleIsTheFormula) {
  for (const char* name : {"gpipe", "1f1b"}) {
    for (int devices = 1; devices <= 8; ++devices) {
      for (const int micro_batches : {1, 2, 3, 5, 8, 32}) {
        for (const auto& remat_text : remat_names()) {
          for (const int64_t internal : {10, 70, 1000}) {  // less than, near and far above the input's 50
            SCOPED_TRACE(
                fmt::format("{} K={} M={} {} {}", name, devices, micro_batches, remat_text, internal));
            const Remat remat = parse_remat(remat_text);
            const auto schedule = make_schedule(name, devices, micro_batches);
            const auto memory = peak_memory(schedule, cells(devices, 50, internal), remat, 0);
            for (int k = 0; k < devices; ++k) {
              EXPECT_EQ(memory[k].activation_bytes,
                        activation_formula(name, devices, k, micro_batches, remat, 50, internal));
            }
          }
        }
      }
    }
  }
}

TEST(Memory, ParametersWithGradientsAndSlots) {
  const auto schedule = make_schedule("interleaved", 2, 2, 3);
  EXPECT_EQ(peak_memory(schedule, cells(6, 0, 0, 100), Remat::kNever, 0)[1].total(), 3 * 200);
  EXPECT_EQ(peak_memory(schedule, cells(6, 0, 0, 100), Remat::kNever, 2)[1].total(), 3 * 400);
}

// What a user chooses by: gpipe holds every micro-batch, 1f1b no more than the devices after it.
TEST(Memory, OneForwardOneBackwardHoldsLess) {
  const auto peak = [](const char* name, Remat remat) {
    return peak_memory(make_schedule(name, 4, 32), cells(4, 1, 10), remat, 0)[0].activation_bytes;
  };
  EXPECT_EQ(peak("gpipe", Remat::kNever), 320);
  EXPECT_EQ(peak("1f1b", Remat::kNever), 40);
  EXPECT_EQ(peak("gpipe", Remat::kAlways), 42);
  EXPECT_EQ(peak("1f1b", Remat::kAlways), 14);
  EXPECT_EQ(peak("gpipe", Remat::kExceptLast), 41);
  EXPECT_EQ(peak("1f1b", Remat::kExceptLast), 23);
}

// With even groups device 0 of interleaved holds min(VM, 2(K-1) + (V-1)K + 1) passes of its cells.
TEST(Memory, InterleavedHoldsItsPassesInFlight) {
  const auto memory = peak_memory(make_schedule("interleaved", 4, 8, 2), cells(8, 1, 10), Remat::kNever, 0);
  EXPECT_EQ(memory[0].activation_bytes, 11 * 10);
  EXPECT_EQ(memory[3].activation_bytes, 5 * 10);
}

TEST(Memory, RefusesCostsThatDoNotMatch) {
  EXPECT_THROW(peak_memory(make_schedule("gpipe", 2, 1), cells(3, 1, 1), Remat::kNever, 0), InputError);
  EXPECT_THROW(activation_formula("interleaved", 2, 0, 1, Remat::kNever, 1, 1), InputError);
}

}  // namespace
}  // namespace entrain::pipeline
