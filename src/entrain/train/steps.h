// Which steps a run makes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "entrain/base/error.h"

namespace entrain::train {

// Steps from `first` (> 0: resumed) to `all`. Throws InputError when there are none left.
inline int64_t steps_left(int64_t first, int64_t all) {
  if (first >= all) bad_input("`steps` {}: the checkpoint has {} steps already; ask for more", all, first);
  return all - first;
}

// No step limit: the run ends by time.
inline constexpr int64_t kUnlimited = 1'000'000'000;

// For a progress line, which knows no total by 0.
inline int64_t shown_total(int64_t steps) { return steps < kUnlimited ? steps : 0; }

// Those at the start of a run of `count` steps whose times do not count: the first fifth, at most 5.
inline int64_t warmup_steps(int64_t count) { return std::min<int64_t>(5, count / 5 + (count > 1 ? 1 : 0)); }

}  // namespace entrain::train
