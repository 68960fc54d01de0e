#include "entrain/simulator/analytic/shape_blocks.h"

#include <algorithm>
#include <atomic>

#include "entrain/base/error.h"
#include "entrain/plan/passes.h"

namespace entrain::simulator {
namespace {

using pipeline::Kind;
using pipeline::Pass;
using pipeline::Work;

uint64_t next_number() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

ShapedJob::ShapedJob(const graph::Graph& g, const cluster::Cluster& c, double compute_scale,
                     const std::vector<double>& updates, int64_t n)
    : number(next_number()), graph(g), cluster(c), update(updates), examples(n), sums(g) {
  if (examples < 1) bad_input("graph {}: examples per update are {}, allowed: 1 or more", g.model, examples);
  for (int rank = 0; rank < c.world(); ++rank) {
    scale.push_back(compute_scale / c.hosts[static_cast<size_t>(c.host_of(rank))].speed);
  }
}

void ShapeBlocks::make(const ShapedJob& job, const strategy::Shape& shape) {
  if (made_for_ == job.number && shape_ == shape) return;
  made_for_ = 0;
  shape_ = shape;
  assignment_ = plan::assign(shape, job.examples);
  const auto passes = plan::make_passes(shape, assignment_);
  find_edges(job.graph, shape);
  times_.clear();
  for (const auto& micro_batch : assignment_.micro_batches) {
    times_.push_back(&job.sums.times(micro_batch.count));
  }
  const auto world = static_cast<size_t>(job.cluster.world());
  variables_ = job.graph.variables.size();
  blocks_.clear();
  first_.clear();
  parcels_.clear();
  complete_.assign(world * variables_, -1);
  waiting_.assign(2 * edges_.size() * static_cast<size_t>(assignment_.count()), -1);
  for (size_t rank = 0; rank < world; ++rank) {
    first_.push_back(static_cast<int>(blocks_.size()));
    if (rank < passes.size() && !passes[rank].empty()) {
      add_rank(job, static_cast<int>(rank), passes[rank]);
    }
  }
  first_.push_back(static_cast<int>(blocks_.size()));
  for (Parcel& parcel : parcels_) parcel.block = waiting_[static_cast<size_t>(parcel.block)];
  made_for_ = job.number;
}

// The flow from cell to cell, and each skip from its producer's cell straight to its consumer's.
void ShapeBlocks::find_edges(const graph::Graph& graph, const strategy::Shape& shape) {
  edges_.clear();
  for (int c = 0; c + 1 < static_cast<int>(shape.cells.size()); ++c) {
    const auto last = static_cast<size_t>(shape.cells[static_cast<size_t>(c)].end) - 1;
    edges_.push_back({c, c + 1, static_cast<double>(graph.layers[last].output_bytes)});
  }
  const auto cell_of = [&](int layer) {
    const auto at = std::find_if(shape.cells.begin(), shape.cells.end(),
                                 [&](const strategy::Cell& cell) { return layer < cell.end; });
    return static_cast<int>(at - shape.cells.begin());
  };
  for (const graph::Skip& skip : graph.skips) {
    const int from = cell_of(skip.from), to = cell_of(skip.to);
    if (from != to) edges_.push_back({from, to, static_cast<double>(skip.bytes)});
  }
}

// For each variable the last backward that adds to its gradient on this rank, and the last layer of it.
void ShapeBlocks::find_completions(const ShapedJob& job, const std::vector<Pass>& passes) {
  completions_.assign(variables_, {});
  uint64_t seen = 0;  // cells, the first 64; of others each backward is looked at
  for (int i = static_cast<int>(passes.size()) - 1; i >= 0; --i) {
    const Work& work = passes[static_cast<size_t>(i)].work;
    if (work.kind != Kind::kBackward) continue;
    if (work.cell < 64) {
      const uint64_t bit = uint64_t{1} << work.cell;
      if (seen & bit) continue;
      seen |= bit;
    }
    const strategy::Cell& cell = shape_.cells[static_cast<size_t>(work.cell)];
    for (int layer = cell.begin; layer < cell.end; ++layer) {
      for (const int v : job.graph.layers[static_cast<size_t>(layer)].variables) {
        Completion& completion = completions_[static_cast<size_t>(v)];
        if (completion.pass < 0) completion = {i, layer};
      }
    }
  }
}

// Notes that the block that comes next waits for what crosses into this pass from other ranks; how much.
int ShapeBlocks::arriving(int rank, const Work& work) {
  const bool backward = work.kind == Kind::kBackward;
  int count = 0;
  for (size_t e = 0; e < edges_.size(); ++e) {
    if ((backward ? edges_[e].from : edges_[e].to) != work.cell) continue;
    if (rank_of(backward ? edges_[e].to : edges_[e].from, work.micro_batch) == rank) continue;
    waiting_[key(e, backward, work.micro_batch)] = static_cast<int>(blocks_.size());
    ++count;
  }
  return count;
}

// The block made last sends what this pass makes for others.
void ShapeBlocks::send(int rank, const Work& work) {
  const bool backward = work.kind == Kind::kBackward;
  const auto count =
      static_cast<double>(assignment_.micro_batches[static_cast<size_t>(work.micro_batch)].count);
  Block& block = blocks_.back();
  block.parcels = static_cast<int>(parcels_.size());
  for (size_t e = 0; e < edges_.size(); ++e) {
    const Edge& edge = edges_[e];
    if ((backward ? edge.to : edge.from) != work.cell) continue;
    const int other = backward ? edge.from : edge.to;
    const int to = rank_of(other, work.micro_batch);
    if (to == rank) continue;
    parcels_.push_back({rank, to, edge.bytes * count,
                        static_cast<int>(key(e, backward, work.micro_batch)),  // make() finds the block
                        backward, work.cell, other, work.micro_batch});
  }
  block.count = static_cast<int>(parcels_.size()) - block.parcels;
}

void ShapeBlocks::add_rank(const ShapedJob& job, int rank, const std::vector<Pass>& passes) {
  find_completions(job, passes);
  double update = 0;
  for (size_t v = 0; v < variables_; ++v) {
    if (completions_[v].pass >= 0) update += job.update[v];
  }
  blocks_.push_back({Block::Kind::kUpdate, 0, 0, update});
  const double scale = job.scale[static_cast<size_t>(rank)];
  for (size_t i = 0; i < passes.size(); ++i) {
    const Work& work = passes[i].work;
    const strategy::Cell& cell = shape_.cells[static_cast<size_t>(work.cell)];
    const auto& forward = times_[static_cast<size_t>(work.micro_batch)]->forward;
    const double seconds =
        scale * (forward[static_cast<size_t>(cell.end)] - forward[static_cast<size_t>(cell.begin)]);
    if (work.kind == Kind::kForward) {
      const int needs = arriving(rank, work);
      blocks_.push_back({Block::Kind::kForward, work.cell, work.micro_batch, seconds, needs});
      send(rank, work);
      continue;
    }
    if (passes[i].recompute) {
      blocks_.push_back({Block::Kind::kRecompute, work.cell, work.micro_batch, seconds});
    }
    add_backward(job, rank, static_cast<int>(i), work);
  }
}

void ShapeBlocks::add_backward(const ShapedJob& job, int rank, int pass, const Work& work) {
  const strategy::Cell& cell = shape_.cells[static_cast<size_t>(work.cell)];
  const auto& backward = times_[static_cast<size_t>(work.micro_batch)]->backward;
  const double scale = job.scale[static_cast<size_t>(rank)];
  Block block{Block::Kind::kBackward, work.cell, work.micro_batch, 0, arriving(rank, work)};
  int end = cell.end;
  for (int layer = cell.end - 1; layer >= cell.begin; --layer) {
    bool completes = false;
    for (const int v : job.graph.layers[static_cast<size_t>(layer)].variables) {
      const Completion& completion = completions_[static_cast<size_t>(v)];
      if (completion.pass != pass || completion.layer != layer) continue;
      completes = true;
      complete_[static_cast<size_t>(rank) * variables_ + static_cast<size_t>(v)] =
          static_cast<int>(blocks_.size());
    }
    if (!completes && layer > cell.begin) continue;
    block.seconds = scale * (backward[static_cast<size_t>(end)] - backward[static_cast<size_t>(layer)]);
    blocks_.push_back(block);
    block.needs = 0;
    end = layer;
  }
  send(rank, work);
}

}  // namespace entrain::simulator
