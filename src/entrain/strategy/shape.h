// The shape of a job, one part of a strategy: which ranks are used, which layers each of them holds, and
// which share of the examples it takes. A shape never changes the update: examples per update are the job's.
//
//   data parallelism            [0,16) on 0,1,2,3
//   one rank alone              [0,16) on 2
//   a pipeline of two replicas  [0,8) on 0,2    [8,16) on 1,3
//   PipeDream's "15-1"          [0,13) on 0,1,2,3 with shares .1 .3 .3 .3    [13,16) on 0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/pipeline/plan/pipeline.h"

namespace entrain::strategy {

using pipeline::Pipeline;  // another part of a strategy

// Consecutive layers, and the ranks that hold a replica of them.
struct Cell {
  int begin = 0, end = 0;           // layers [begin, end)
  std::vector<int> ranks;           // their order decides who meets whom (plan/assignment.h)
  std::vector<double> shares = {};  // of the examples, by replica; empty: equal
  friend bool operator==(const Cell&, const Cell&) = default;

  int replicas() const { return static_cast<int>(ranks.size()); }
  double share(int replica) const;
};

struct Shape {
  std::vector<Cell> cells;        // they cover all layers in order
  int micro_batches = 0;          // M, per update; 0: one for each replica of the cell that has most
  std::string schedule = "1f1b";  // gpipe or 1f1b; interleaved where ranks hold several cells
  pipeline::Remat remat = pipeline::Remat::kExceptLast;
  friend bool operator==(const Shape&, const Shape&) = default;

  int layers() const { return cells.empty() ? 0 : cells.back().end; }
  int most_replicas() const;
  int micro_batches_or_default() const { return micro_batches > 0 ? micro_batches : most_replicas(); }
  std::vector<int> ranks() const;  // that hold anything, ascending
  bool holds(int rank) const;
  // The ranks that hold this layer, ascending.
  std::vector<int> holders_of(int layer) const;
};

// All of `ranks` hold all layers.
Shape data_parallel(int layers, std::vector<int> ranks);

// What the pipeline asks for on these ranks: replica r is ranks[r K] to ranks[r K + K - 1], cell c on device
// c % K. `balance`: layers per cell. Throws InputError where the number of ranks is not a multiple of K.
Shape shape_of(const Pipeline& pipeline, const std::vector<int>& balance, const std::vector<int>& ranks);

// What can be told without the model and the cluster. Throws InputError naming field, value and what is
// allowed.
void validate(const Shape& shape);
// The rest: `layers` of the model, ranks of the cluster, `examples` per update.
void validate(const Shape& shape, int layers, const cluster::Cluster& cluster, int64_t examples);

// Hosts by cells, as a picture:
//
//                 layers 0-12    13-15
//   10.0.0.1  0   10%            all
//   10.0.0.2  1   30%
std::string draw(const Shape& shape, const cluster::Cluster& cluster);

}  // namespace entrain::strategy
