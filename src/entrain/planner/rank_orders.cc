#include "entrain/planner/rank_orders.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace entrain::planner {
namespace {

std::vector<int> ranks_of(const cluster::Cluster& cluster, const std::vector<int>& hosts) {
  std::vector<int> ranks;
  for (const int h : hosts) {
    const int first = cluster.first_rank(h);
    for (int r = 0; r < cluster.hosts[h].workers; ++r) ranks.push_back(first + r);
  }
  return ranks;
}

// Rank 0 of each host, then rank 1 of each, ...: replicas of a cell lie on different hosts, and a micro-batch
// stays on its host.
std::vector<int> across_hosts(const Estimator& estimator, const std::vector<int>& order) {
  std::vector<int> ranks;
  for (int place = 0; ranks.size() < order.size(); ++place) {
    for (const int r : order) {
      if (r - estimator.cluster().first_rank(estimator.host_of(r)) == place) ranks.push_back(r);
    }
  }
  return ranks;
}

}  // namespace

std::vector<std::vector<int>> rank_orders(const Estimator& estimator) {
  const auto& cluster = estimator.cluster();
  std::vector<int> listed;
  for (int h = 0; h < static_cast<int>(cluster.hosts.size()); ++h) {
    if (!cluster.hosts[h].server_only()) listed.push_back(h);
  }
  std::vector<std::vector<int>> by = {listed, listed, listed};
  const auto speed = [&](int h) { return cluster.hosts[h].speed; };
  const auto link = [&](int h) { return cluster.hosts[h].bandwidth_gbit; };
  std::stable_sort(by[0].begin(), by[0].end(),
                   [&](int a, int b) { return std::pair(speed(a), link(a)) > std::pair(speed(b), link(b)); });
  std::stable_sort(by[1].begin(), by[1].end(),
                   [&](int a, int b) { return std::pair(link(a), speed(a)) > std::pair(link(b), speed(b)); });
  using Place = std::tuple<double, double, int, double>;  // speed, link, host's place in the order, memory
  std::set<std::vector<Place>> seen;
  std::vector<std::vector<int>> orders;
  const auto add = [&](const std::vector<int>& hosts) {
    std::vector<int> ranks = ranks_of(cluster, hosts);
    std::vector<Place> places;
    for (const int r : ranks) {
      const int h = estimator.host_of(r);
      const auto place = std::find(hosts.begin(), hosts.end(), h) - hosts.begin();
      places.emplace_back(estimator.speed(r), estimator.link(h), static_cast<int>(place),
                          estimator.memory(r));
    }
    if (seen.insert(std::move(places)).second) orders.push_back(std::move(ranks));
  };
  for (const auto& hosts : by) {
    add(hosts);
    for (size_t count = hosts.size(); count > 1; count /= 2) {
      std::vector<int> best(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(count));
      std::reverse(best.begin(), best.end());
      // Backwards is of use only where it puts other ranks first.
      if (speed(best.front()) != speed(best.back()) || link(best.front()) != link(best.back())) add(best);
    }
  }
  for (size_t i = 0, count = orders.size(); i < count; ++i) {
    auto across = across_hosts(estimator, orders[i]);
    if (across != orders[i]) orders.push_back(std::move(across));
  }
  return orders;
}

std::vector<int> cell_widths(const Estimator& estimator, int ranks) {
  std::set<int> widths = {ranks};
  for (int w = 1; w <= ranks; ranks <= 8 ? ++w : w *= 2) widths.insert(w);
  for (const auto& host : estimator.cluster().hosts) {
    for (int w = host.workers; w > 0 && w <= ranks; w *= 2) widths.insert(w);
  }
  return {widths.begin(), widths.end()};
}

}  // namespace entrain::planner
