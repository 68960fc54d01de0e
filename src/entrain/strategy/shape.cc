#include "entrain/strategy/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "entrain/base/error.h"
#include "entrain/base/limits.h"
#include "entrain/pipeline/plan/schedule.h"

namespace entrain::strategy {
namespace {

void check_name(const char* field, const std::string& value, const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  bad_input("shape: {} is '{}', allowed: {}", field, value, fmt::join(allowed, ", "));
}

void check_ranks(const Cell& cell, size_t index) {
  if (cell.ranks.empty()) bad_input("shape: cell {} has no ranks, allowed: one or more", index);
  std::set<int> seen;
  for (const int rank : cell.ranks) {
    if (rank < 0 || rank >= kMaxRanks) {
      bad_input("shape: cell {}: rank {}, allowed: 0 to {}", index, rank, kMaxRanks - 1);
    }
    if (!seen.insert(rank).second) {
      bad_input("shape: cell {} lists rank {} twice, allowed: once per cell", index, rank);
    }
  }
}

void check_shares(const Cell& cell, size_t index) {
  if (cell.shares.empty()) return;
  if (cell.shares.size() != cell.ranks.size()) {
    bad_input("shape: cell {} has {} shares, allowed: {} (one per rank), or none for equal shares", index,
              cell.shares.size(), cell.ranks.size());
  }
  double sum = 0;
  for (size_t r = 0; r < cell.shares.size(); ++r) {
    const double share = cell.shares[r];
    if (!(share > 0 && share <= 1)) {
      bad_input("shape: cell {}: the share of rank {} is {}, allowed: above 0, at most 1", index,
                cell.ranks[r], share);
    }
    sum += share;
  }
  if (std::abs(sum - 1) > 1e-6) {
    bad_input("shape: cell {}: shares sum to {}, allowed: 1", index, sum);
  }
}

std::string percent(const Cell& cell, int replica) {
  if (cell.replicas() == 1) return "all";
  return fmt::format("{:.3g}%", 100 * cell.share(replica));
}

}  // namespace

double Cell::share(int replica) const {
  return shares.empty() ? 1.0 / replicas() : shares[static_cast<size_t>(replica)];
}

int Shape::most_replicas() const {
  int most = 0;
  for (const Cell& cell : cells) most = std::max(most, cell.replicas());
  return most;
}

std::vector<int> Shape::ranks() const {
  std::set<int> all;
  for (const Cell& cell : cells) all.insert(cell.ranks.begin(), cell.ranks.end());
  return {all.begin(), all.end()};
}

bool Shape::holds(int rank) const {
  return std::any_of(cells.begin(), cells.end(), [&](const Cell& cell) {
    return std::find(cell.ranks.begin(), cell.ranks.end(), rank) != cell.ranks.end();
  });
}

std::vector<int> Shape::holders_of(int layer) const {
  for (const Cell& cell : cells) {
    if (layer < cell.begin || layer >= cell.end) continue;
    std::vector<int> ranks = cell.ranks;
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
  fail("shape: layer {} is in no cell", layer);
}

Shape data_parallel(int layers, std::vector<int> ranks) {
  return {{{0, layers, std::move(ranks)}}, 0, "1f1b", pipeline::Remat::kNever};
}

Shape shape_of(const Pipeline& pipeline, const std::vector<int>& balance, const std::vector<int>& ranks) {
  const auto devices = static_cast<size_t>(pipeline.devices);
  if (ranks.size() % devices != 0) {
    bad_input("`pipeline` {} on {} ranks: allowed: a number of ranks that {} divides, or `cells` threads",
              devices, ranks.size(), devices);
  }
  const size_t replicas = ranks.size() / devices;
  Shape shape{{}, pipeline.micro_batches * static_cast<int>(replicas), pipeline.schedule, pipeline.remat};
  int begin = 0;
  for (size_t c = 0; c < balance.size(); ++c) {
    Cell cell{begin, begin + balance[c], {}};
    for (size_t r = 0; r < replicas; ++r) cell.ranks.push_back(ranks[r * devices + c % devices]);
    begin = cell.end;
    shape.cells.push_back(std::move(cell));
  }
  return shape;
}

void validate(const Shape& shape) {
  check_name("schedule", shape.schedule, pipeline::schedule_names());
  if (shape.micro_batches < 0 || shape.micro_batches > kMaxMicroBatches) {
    bad_input("shape: micro_batches is {}, allowed: 1 to {}, or 0 for one per replica", shape.micro_batches,
              kMaxMicroBatches);
  }
  if (shape.cells.empty()) bad_input("shape: it has no cells, allowed: one or more");
  int next = 0;
  for (size_t c = 0; c < shape.cells.size(); ++c) {
    const Cell& cell = shape.cells[c];
    if (cell.begin != next) {
      bad_input("shape: cell {} begins at layer {}, allowed: {} (cells cover all layers in order)", c,
                cell.begin, next);
    }
    if (cell.end <= cell.begin) {
      bad_input("shape: cell {} ends before layer {}, allowed: {} or more (no cell is empty)", c, cell.end,
                cell.begin + 1);
    }
    next = cell.end;
    check_ranks(cell, c);
    check_shares(cell, c);
    if (shape.micro_batches > 0 && shape.micro_batches < cell.replicas()) {
      bad_input("shape: micro_batches is {} and cell {} has {} replicas, allowed: {} or more",
                shape.micro_batches, c, cell.replicas(), cell.replicas());
    }
  }
}

void validate(const Shape& shape, int layers, const cluster::Cluster& cluster, int64_t examples) {
  validate(shape);
  if (shape.layers() != layers) {
    bad_input("shape: its cells end before layer {}, allowed: {}, the model's layers", shape.layers(),
              layers);
  }
  for (size_t c = 0; c < shape.cells.size(); ++c) {
    for (const int rank : shape.cells[c].ranks) {
      if (rank < cluster.world() && cluster.is_worker(rank)) continue;
      bad_input("shape: cell {}: rank {} {}, allowed: {}", c, rank,
                rank < cluster.world() ? "only serves parameters" : "is not in the cluster",
                fmt::join(cluster.worker_ranks(), ", "));
    }
  }
  const int micro_batches = shape.micro_batches_or_default();
  if (micro_batches > examples) {
    bad_input("shape: micro_batches is {}, allowed: at most {}, the examples per update", micro_batches,
              examples);
  }
}

std::string draw(const Shape& shape, const cluster::Cluster& cluster) {
  std::vector<std::string> heads;
  size_t width = 6;
  for (const Cell& cell : shape.cells) {
    const bool one = cell.end == cell.begin + 1;
    heads.push_back(one ? fmt::format("{}", cell.begin) : fmt::format("{}-{}", cell.begin, cell.end - 1));
    width = std::max(width, heads.back().size());
  }
  size_t hosts = 4;
  for (const auto& host : cluster.hosts) hosts = std::max(hosts, host.address.size());
  std::string picture = fmt::format("{:{}}  rank  layers", "host", hosts);
  for (const auto& head : heads) picture += fmt::format("  {:{}}", head, width);
  const auto end_line = [&] {
    picture.erase(picture.find_last_not_of(' ') + 1);
    picture += '\n';
  };
  end_line();
  for (const int rank : cluster.worker_ranks()) {
    picture += fmt::format("{:{}}  {:>4}        ", cluster.hosts[cluster.host_of(rank)].address, hosts, rank);
    if (!shape.holds(rank)) picture += "  not used";
    for (const Cell& cell : shape.cells) {
      const auto found = std::find(cell.ranks.begin(), cell.ranks.end(), rank);
      const bool here = found != cell.ranks.end();
      const std::string text = here ? percent(cell, static_cast<int>(found - cell.ranks.begin())) : "";
      picture += fmt::format("  {:{}}", text, width);
    }
    end_line();
  }
  return picture;
}

}  // namespace entrain::strategy
