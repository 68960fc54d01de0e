#include "entrain/plan/shape_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "entrain/plan/passes.h"

namespace entrain::plan {
namespace {

using pipeline::Kind;
using pipeline::Pass;

constexpr double kGiB = 1024.0 * 1024 * 1024;

// Per example.
struct CellBytes {
  int64_t input = 0, kept = 0;
};

std::vector<CellBytes> bytes_of_cells(const strategy::Shape& shape, const graph::Graph& graph) {
  std::vector<CellBytes> result;
  for (const strategy::Cell& cell : shape.cells) {
    CellBytes bytes;
    const auto begin = static_cast<size_t>(cell.begin), end = static_cast<size_t>(cell.end);
    bytes.input = begin == 0 ? graph.input_bytes : graph.layers[begin - 1].output_bytes;
    for (size_t l = begin; l < end; ++l) bytes.kept += graph.layers[l].kept_bytes;
    for (const graph::Skip& skip : graph.skips) {
      if (skip.from < cell.begin && skip.to >= cell.begin && skip.to < cell.end) bytes.input += skip.bytes;
    }
    result.push_back(bytes);
  }
  return result;
}

int64_t peak_activations(const std::vector<Pass>& passes, const std::vector<CellBytes>& cells,
                         const Assignment& assignment) {
  int64_t now = 0, peak = 0;
  for (const Pass& pass : passes) {
    const CellBytes& cell = cells[static_cast<size_t>(pass.work.cell)];
    const int64_t examples = assignment.micro_batches[static_cast<size_t>(pass.work.micro_batch)].count;
    const int64_t stored = examples * (pass.recompute ? cell.input : cell.kept);
    if (pass.work.kind == Kind::kForward) {
      now += stored;
      peak = std::max(peak, now);
    } else {
      peak = std::max(peak, now + (pass.recompute ? examples * cell.kept : 0));
      now -= stored;
    }
  }
  return peak;
}

}  // namespace

std::vector<RankMemory> memory_by_rank(const strategy::Shape& shape, const graph::Graph& graph,
                                       const Assignment& assignment,
                                       const std::vector<std::vector<Pass>>& passes, int optimizer_slots,
                                       int world) {
  std::vector<RankMemory> memory(static_cast<size_t>(world));
  const auto cells = bytes_of_cells(shape, graph);
  std::vector<int> counted(graph.variables.size());
  for (size_t rank = 0; rank < memory.size(); ++rank) {
    RankMemory& of = memory[rank];
    for (const strategy::Cell& cell : shape.cells) {
      if (std::find(cell.ranks.begin(), cell.ranks.end(), static_cast<int>(rank)) == cell.ranks.end())
        continue;
      for (int layer = cell.begin; layer < cell.end; ++layer) {
        for (const int v : graph.layers[static_cast<size_t>(layer)].variables) {
          int& last = counted[static_cast<size_t>(v)];
          if (last == static_cast<int>(rank) + 1) continue;  // tied: another of its layers reads it, too
          last = static_cast<int>(rank) + 1;
          const graph::Variable& variable = graph.variables[static_cast<size_t>(v)];
          of.weights += variable.bytes();
          of.gradients += variable.step_bytes();
          of.optimizer += variable.bytes() * optimizer_slots;
        }
      }
    }
    if (rank == 0) of.weights = graph.bytes();
    if (rank < passes.size()) of.activations = peak_activations(passes[rank], cells, assignment);
  }
  return memory;
}

std::string missing_memory(const strategy::Shape& shape, const graph::Graph& graph,
                           const cluster::Cluster& cluster, int64_t examples, int optimizer_slots) {
  const bool known = std::any_of(cluster.hosts.begin(), cluster.hosts.end(),
                                 [](const cluster::Host& host) { return host.memory_gib > 0; });
  if (!known) return {};
  const Assignment assignment = assign(shape, examples);
  const auto memory = memory_by_rank(shape, graph, assignment, make_passes(shape, assignment),
                                     optimizer_slots, cluster.world());
  std::vector<double> needed(cluster.hosts.size());
  std::vector<std::vector<int>> ranks(cluster.hosts.size());
  for (int rank = 0; rank < cluster.world(); ++rank) {
    const double gib = static_cast<double>(memory[static_cast<size_t>(rank)].total()) / kGiB;
    if (gib == 0) continue;
    const auto host = static_cast<size_t>(cluster.host_of(rank));
    needed[host] += gib;
    ranks[host].push_back(rank);
  }
  double most = 0;
  std::string line;
  for (size_t h = 0; h < needed.size(); ++h) {
    const double available = cluster.hosts[h].memory_gib, lacking = needed[h] - available;
    if (available <= 0 || lacking <= most) continue;
    most = lacking;
    line =
        fmt::format("host {} needs {:.3g} GiB for {} {}, available: {:.3g} GiB", cluster.hosts[h].address,
                    needed[h], ranks[h].size() == 1 ? "rank" : "ranks", fmt::join(ranks[h], ", "), available);
  }
  return line;
}

}  // namespace entrain::plan
