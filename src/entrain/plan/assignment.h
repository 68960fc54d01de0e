// Who computes what of a step: the examples of an update cut into micro-batches, and for each cell the rank
// that takes each of them. A pure function of the shape and the examples per update.
//
// The anchor is the first cell with the most replicas. Its replica r gets examples and micro-batches m(r) >=
// 1 by its share, to the nearest one. The i-th of replica r sorts by ((i + 1/2) / m(r), r): all replicas
// begin at once and end together. Micro-batches are numbered in this order, and examples follow the numbers,
// so that data parallelism gives rank i the i-th part of the examples.
//
// A cell with the same shares takes the same replica for each micro-batch. In another one, micro-batch after
// micro-batch goes to the replica that would have the least examples for its share.
#pragma once

#include <cstdint>
#include <vector>

#include "entrain/strategy/shape.h"

namespace entrain::plan {

// Examples [begin, begin + count) of the update.
struct MicroBatch {
  int64_t begin;
  int64_t count;
  friend bool operator==(const MicroBatch&, const MicroBatch&) = default;
};

struct Assignment {
  int64_t examples = 0;
  std::vector<MicroBatch> micro_batches;
  std::vector<std::vector<int>> replica_of;  // by cell, by micro-batch: index into Cell::ranks
  std::vector<std::vector<int>> rank_of;     // the same as ranks

  int count() const { return static_cast<int>(micro_batches.size()); }
  int cells() const { return static_cast<int>(rank_of.size()); }
  // Of this cell and replica, ascending.
  std::vector<int> of_replica(int cell, int replica) const;
};

// Requires: strategy::validate(shape, ...) passed with these examples.
Assignment assign(const strategy::Shape& shape, int64_t examples);

}  // namespace entrain::plan
