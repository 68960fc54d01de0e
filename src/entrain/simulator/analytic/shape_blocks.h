// What a shape makes of one update: for each rank a list of blocks, stretches of computing in the order in
// which the rank runs them, and the parcels that go from the end of one block to the beginning of another.
//
//   rank 0   U  F0 ─┐  F1 ─┐            R0  B0 | B0     U  update of the step before
//                   ▼      │             ▲              R  forward again, before its gradient is there
//   rank 1   U      F0  B0 ┼─────────────┘              |  a gradient is complete: a message may set out
//                          ▼
//                          F1 ...
//
// Passes are those of plan/passes.h. Activations, skips and their gradients go straight from rank to rank.
// The last backward that adds to some of a rank's gradients is cut at the layers that complete them.
//
// Seconds: Layer::time_of(examples of the micro-batch) summed over the cell's layers, by the host's speed;
// U: by the bytes of all variables that the rank holds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/pipeline/plan/schedule.h"
#include "entrain/plan/assignment.h"
#include "entrain/simulator/analytic/layer_sums.h"
#include "entrain/strategy/shape.h"

namespace entrain::simulator {

// What does not depend on the shape. All that it refers to outlives it.
struct ShapedJob {
  // `compute_scale`: measured over profiled seconds. `update`: seconds, by variable.
  ShapedJob(const graph::Graph& graph, const cluster::Cluster& cluster, double compute_scale,
            const std::vector<double>& update, int64_t examples);

  const uint64_t number;  // no other job has it
  const graph::Graph& graph;
  const cluster::Cluster& cluster;
  const std::vector<double>& update;
  int64_t examples;  // per update
  LayerSums sums;
  std::vector<double> scale;  // by rank: seconds by profiled second
};

struct Block {
  enum class Kind { kUpdate, kForward, kRecompute, kBackward };
  Kind kind;
  int cell;
  int micro_batch;
  double seconds;
  int needs = 0;               // parcels that must have come before it begins
  int parcels = 0, count = 0;  // that its end sends: their first, and how many
};

struct Parcel {
  int from, to;  // ranks
  double bytes;
  int block;      // that needs it
  bool backward;  // a gradient
  int from_cell, to_cell;
  int micro_batch;
};

class ShapeBlocks {
 public:
  // Requires: validate(shape, ...) passed for the job. Keeps its memory from call to call, and what it has
  // made if job and shape are those of the last call.
  void make(const ShapedJob& job, const strategy::Shape& shape);

  int ranks() const { return static_cast<int>(first_.size()) - 1; }
  const std::vector<Block>& blocks() const { return blocks_; }
  // The place of this rank's first one in blocks(). The next rank's first one is its end.
  int first(int rank) const { return first_[static_cast<size_t>(rank)]; }
  const std::vector<Parcel>& parcels() const { return parcels_; }
  // The place of the block at whose end this rank has its own gradient of the variable.
  // Requires: `rank` holds a layer.
  int completes(int rank, int variable) const {
    const int block = complete_[static_cast<size_t>(rank) * variables_ + static_cast<size_t>(variable)];
    return block >= 0 ? block : first(rank + 1) - 1;  // no layer reads it: after all passes
  }

 private:
  struct Edge {
    int from, to;  // cells
    double bytes;  // per example
  };
  struct Completion {
    int pass = -1, layer = -1;
  };

  void find_edges(const graph::Graph& graph, const strategy::Shape& shape);
  void find_completions(const ShapedJob& job, const std::vector<pipeline::Pass>& passes);
  void add_rank(const ShapedJob& job, int rank, const std::vector<pipeline::Pass>& passes);
  void add_backward(const ShapedJob& job, int rank, int pass, const pipeline::Work& work);
  int arriving(int rank, const pipeline::Work& work);
  void send(int rank, const pipeline::Work& work);
  int rank_of(int cell, int micro_batch) const {
    return assignment_.rank_of[static_cast<size_t>(cell)][static_cast<size_t>(micro_batch)];
  }
  size_t key(size_t edge, bool backward, int micro_batch) const {
    return (2 * edge + (backward ? 1 : 0)) * static_cast<size_t>(assignment_.count()) +
           static_cast<size_t>(micro_batch);
  }

  uint64_t made_for_ = 0;  // ShapedJob::number
  strategy::Shape shape_;
  plan::Assignment assignment_;
  size_t variables_ = 0;
  std::vector<Block> blocks_;
  std::vector<int> first_;  // by rank, and one more
  std::vector<Parcel> parcels_;
  std::vector<int> complete_;  // by rank and variable; -1: no layer of the rank reads it

  std::vector<Edge> edges_;
  std::vector<int> waiting_;                    // by key(): the block that needs it
  std::vector<const LayerSums::Times*> times_;  // by micro-batch
  std::vector<Completion> completions_;         // by variable, of one rank
};

}  // namespace entrain::simulator
