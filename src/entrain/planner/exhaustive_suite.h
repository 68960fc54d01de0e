// For tests: every shape of a small case, priced by the timeline of testing.h.
#pragma once

#include <cmath>
#include <functional>
#include <random>

#include "entrain/planner/testing.h"

namespace entrain::planner::testing {

using strategy::Cell;
using strategy::Shape;

// Every way of giving some ranks whole examples of a cell: ranks and shares.
inline std::vector<Cell> replicas_of(int ranks, int examples) {
  std::vector<Cell> result;
  std::vector<int> counts(static_cast<size_t>(ranks));
  const std::function<void(int, int)> give = [&](int rank, int left) {
    if (rank == ranks - 1) {
      counts[rank] = left;
      Cell cell;
      for (int r = 0; r < ranks; ++r) {
        if (counts[r] == 0) continue;
        cell.ranks.push_back(r);
        cell.shares.push_back(counts[r] / static_cast<double>(examples));
      }
      result.push_back(cell);
      return;
    }
    for (int n = 0; n <= left; ++n) {
      counts[rank] = n;
      give(rank + 1, left - n);
    }
  };
  give(0, examples);
  return result;
}

class Exhaustive {
 public:
  Exhaustive(const graph::Graph& graph, const cluster::Cluster& cluster, int examples)
      : graph_(graph),
        cluster_(cluster),
        examples_(examples),
        options_(replicas_of(cluster.world(), examples)) {}

  // Seconds per step of the best, or `known` if no shape is faster.
  double best(double known) {
    best_ = known;
    visit(0);
    return best_;
  }

 private:
  void visit(int layer) {
    if (layer == static_cast<int>(graph_.layers.size())) {
      price();
      return;
    }
    for (int end = layer + 1; end <= static_cast<int>(graph_.layers.size()); ++end) {
      for (Cell cell : options_) {
        cell.begin = layer;
        cell.end = end;
        if (!shape_.cells.empty() && cell.ranks == shape_.cells.back().ranks &&
            cell.shares == shape_.cells.back().shares) {
          continue;  // one cell with the one before
        }
        shape_.cells.push_back(std::move(cell));
        visit(end);
        shape_.cells.pop_back();
      }
    }
  }

  void price() {
    for (int m = shape_.most_replicas(); m <= examples_; ++m) {
      shape_.micro_batches = m;
      if (busiest_rank() >= best_) continue;
      for (const char* schedule : {"1f1b", "gpipe"}) {
        shape_.schedule = schedule;
        best_ = std::min(best_, Timeline(graph_, cluster_, shape_, examples_).period());
        if (shape_.cells.size() == 1) break;
      }
    }
  }

  // Seconds that the busiest rank computes: no step is shorter.
  double busiest_rank() const {
    const auto assignment = plan::assign(shape_, examples_);
    std::vector<double> load(static_cast<size_t>(cluster_.world()));
    for (size_t c = 0; c < shape_.cells.size(); ++c) {
      for (int m = 0; m < assignment.count(); ++m) {
        const int rank = assignment.rank_of[c][m];
        for (int l = shape_.cells[c].begin; l < shape_.cells[c].end; ++l) {
          const auto time = graph_.layers[l].time_of(assignment.micro_batches[m].count);
          load[rank] += (time.forward_s + time.backward_s) / cluster_.hosts[cluster_.host_of(rank)].speed;
        }
      }
    }
    return *std::max_element(load.begin(), load.end());
  }

  const graph::Graph& graph_;
  const cluster::Cluster& cluster_;
  int examples_;
  std::vector<Cell> options_;
  Shape shape_{{}, 0, "1f1b", pipeline::Remat::kNever};
  double best_ = 0;
};

// A small random job: 2 or 3 hosts, or 2 hosts of which one has two ranks; 2 to 4 layers, up to 6 examples;
// in some the first and the last layer share a variable.
struct Case {
  graph::Graph graph;
  cluster::Cluster cluster;
  int examples;
};
inline Case random_case(std::mt19937_64& rng) {
  const auto between = [&](double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<>(0, 1)(rng));
  };
  const auto one_of = [&](int low, int high) { return std::uniform_int_distribution<>(low, high)(rng); };
  const bool three = one_of(0, 2) == 0;
  std::vector<LayerSpec> layers;
  const int count = three ? one_of(2, 3) : one_of(2, 4);
  const double fixed = one_of(0, 1) * between(0.1, 1);
  for (int l = 0; l < count; ++l) {
    const double forward = between(0.3, 3);
    const auto parameters = 4 * static_cast<int64_t>(between(1, 1000));
    layers.push_back({forward, 2 * forward, parameters, static_cast<int64_t>(between(1, 300)), fixed});
  }
  std::vector<HostSpec> specs;
  const double link = between(3, 3000);
  for (int h = 0; h < (three ? 3 : 2); ++h) {
    const double speed = one_of(0, 1) ? 1 : between(0.3, 1);
    specs.push_back({1, speed, one_of(0, 1) ? link : between(3, 3000)});
  }
  if (three && one_of(0, 1)) {
    specs.pop_back();
    specs[0].workers = 2;
  }
  const int examples = three ? one_of(1, count == 3 ? 3 : 4) : one_of(1, count == 4 ? 3 : 6);
  Case result{chain(layers), hosts(specs), examples};
  auto& last = result.graph.layers.back().variables;
  if (one_of(0, 3) == 0) last.insert(last.begin(), 0);
  return result;
}

}  // namespace entrain::planner::testing
