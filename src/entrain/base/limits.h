// What no job needs more of. Sizes that come from outside are compared with these before memory is taken.
#pragma once

#include <cstddef>
#include <cstdint>

namespace entrain {

inline constexpr int kMaxRanks = 4096;                     // of a job
inline constexpr int kMaxMicroBatches = 1 << 16;           // of an update
inline constexpr int64_t kMaxExamples = int64_t{1} << 24;  // of an update
inline constexpr double kMaxSeconds = 1e9;                 // 31 years: of a job, of a pass through a layer
// Bytes of a strategy, a graph or a record. What they become in memory is up to 60 times as large.
inline constexpr size_t kMaxDocument = 16 << 20;

}  // namespace entrain
