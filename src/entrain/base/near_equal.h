// A number of things cut into parts that differ by at most one: chunks of a message, shards of a dimension,
// micro-batches.
#pragma once

#include <algorithm>
#include <cstdint>

namespace entrain {

// The first count % parts of them hold one more: 7 in 3 are 3, 2, 2. Requires: parts >= 1, part in [0,
// parts).
class NearEqualParts {
 public:
  constexpr NearEqualParts(int64_t count, int64_t parts) : least_(count / parts), longer_(count % parts) {}

  constexpr int64_t begin(int64_t part) const { return part * least_ + std::min(part, longer_); }
  constexpr int64_t end(int64_t part) const { return begin(part) + size(part); }
  constexpr int64_t size(int64_t part) const { return least_ + (part < longer_ ? 1 : 0); }

 private:
  int64_t least_;
  int64_t longer_;
};

// Where part `part` begins when the longer ones are spread among the others: 7 in 3 are 2, 2, 3. It ends
// where the next begins. Requires: as above; `part` may be `parts`.
constexpr int64_t spread_begin(int64_t count, int64_t parts, int64_t part) { return count * part / parts; }

}  // namespace entrain
