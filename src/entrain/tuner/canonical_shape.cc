#include "entrain/tuner/canonical_shape.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace entrain::tuner {
namespace {

using strategy::Cell;
using strategy::Shape;

using Kind = std::tuple<double, double, double, int>;
Kind kind_of(const cluster::Host& host) {
  return {host.bandwidth_gbit, host.speed, host.memory_gib, host.workers};
}

// The other host for each: of its kind, in the order in which the shape's cells come to them.
std::vector<int> renamed_hosts(const Shape& shape, const cluster::Cluster& cluster) {
  std::map<Kind, std::vector<int>> free;  // hosts, the first one last
  for (int h = static_cast<int>(cluster.hosts.size()) - 1; h >= 0; --h) {
    free[kind_of(cluster.hosts[static_cast<size_t>(h)])].push_back(h);
  }
  std::vector<int> renamed(cluster.hosts.size(), -1);
  for (const Cell& cell : shape.cells) {
    for (const int rank : cell.ranks) {
      int& name = renamed[static_cast<size_t>(cluster.host_of(rank))];
      if (name >= 0) continue;
      auto& left = free[kind_of(cluster.hosts[static_cast<size_t>(cluster.host_of(rank))])];
      name = left.back();
      left.pop_back();
    }
  }
  return renamed;
}

}  // namespace

Shape canonical(const Shape& shape, const cluster::Cluster& cluster) {
  Shape result = shape;
  result.cells.clear();
  for (const Cell& cell : shape.cells) {
    Cell* before = result.cells.empty() ? nullptr : &result.cells.back();
    if (before != nullptr && before->ranks == cell.ranks && before->shares == cell.shares) {
      before->end = cell.end;
    } else {
      result.cells.push_back(cell);
    }
  }
  if (!cluster.links.empty()) return result;
  const std::vector<int> hosts = renamed_hosts(result, cluster);
  for (Cell& cell : result.cells) {
    for (int& rank : cell.ranks) {
      const int host = cluster.host_of(rank);
      rank += cluster.first_rank(hosts[static_cast<size_t>(host)]) - cluster.first_rank(host);
    }
  }
  return result;
}

}  // namespace entrain::tuner
