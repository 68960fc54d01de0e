// Partitioners: layers 0..L-1 with costs into contiguous cells, none empty.
//
// A balance is the number of layers of each cell: {3, 5, 4} is three cells of 12 layers. Every function
// throws InputError for fewer than 1 cell, more cells than layers, or a cost that is negative or not finite.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace entrain::pipeline {

// GPipe's own objective: the least variance of the cells' summed cost, exactly (the mean is given, so
// the least sum of squares). O(cells * L^2).
std::vector<int> min_variance(const std::vector<double>& costs, int cells);

// The heuristic of torchgpipe, after Barany and Grinberg, "Block partitions of sequences": layers move
// one at a time towards the smallest cell until the largest exceeds it by at most one layer's cost.
// (torchgpipe also subtracts the smallest cost from all first, and starts with the remainder in the last
// cell.) Not optimal: here to be compared with.
std::vector<int> block_partition(const std::vector<double>& costs, int cells);

// Bytes on the device of `cell` when it holds layers first..last (inclusive). Must not fall as `last` grows.
using MemoryOf = std::function<int64_t(int first, int last, int cell)>;

struct MinMaxOptions {
  std::vector<double> speed = {};          // by cell, > 0; empty: 1. A cell's time is its cost / speed.
  MemoryOf memory = {};                    // none: memory is not limited
  std::vector<int64_t> memory_limit = {};  // by cell; needed with `memory`
};

struct Partition {
  std::vector<int> balance;
  double max_time = 0;          // of the slowest cell
  int64_t shortfall_bytes = 0;  // > 0: no partition fits; this one misses by the least, on cell:
  int shortfall_cell = -1;

  bool fits() const { return shortfall_bytes == 0; }
};

// The optimum: the least max_time of any partition that fits; of those, the least sum of squared times.
// Where none fits, the one whose worst cell exceeds its limit by the least, and by how much.
// O(cells * L) for each of about 60 bisections, plus O(cells * L * W) with W layers the most a cell may hold.
Partition min_max(const std::vector<double>& costs, int cells, const MinMaxOptions& options = {});

// Whether min_max() would fit if every limit were raised by `extra_bytes`: much cheaper than the partition.
bool can_fit(int layers, int cells, const MinMaxOptions& options, int64_t extra_bytes = 0);

// The user's own: "3,5,4". InputError unless it is `cells` whole numbers from 1 that sum to `layers`.
std::vector<int> parse_balance(const std::string& text, int layers, int cells);

// The checks named above.
void check_costs(const std::vector<double>& costs, int cells);

// Summed cost of each cell.
std::vector<double> cell_costs(const std::vector<double>& costs, const std::vector<int>& balance);

}  // namespace entrain::pipeline
