#include "entrain/tuner/what_if/setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "entrain/base/error.h"

namespace entrain::tuner {
namespace {

constexpr int64_t kMostRanks = 4096;  // of a cluster

bool alike(const cluster::Host& a, const cluster::Host& b) {
  return a.bandwidth_gbit == b.bandwidth_gbit && a.workers == b.workers && a.speed == b.speed &&
         a.memory_gib == b.memory_gib;
}

// Rates that were read from texts: 700 * 0.001 is not 0.7.
bool same_rate(double a, double b) { return std::abs(a - b) <= 1e-9 * b; }

template <typename T>
std::vector<T> or_one(const std::vector<T>& values, T otherwise) {
  return values.empty() ? std::vector<T>{otherwise} : values;
}

}  // namespace

std::vector<Setting> product(const Axes& axes, int64_t examples) {
  std::vector<Setting> settings;
  for (const int64_t n : or_one(axes.examples, examples)) {
    for (const int hosts : or_one(axes.hosts, 0)) {
      for (const double gbit : or_one(axes.link_gbit, 0.0)) settings.push_back({n, hosts, gbit});
    }
  }
  return settings;
}

Setting normal(Setting setting, const cluster::Cluster& cluster) {
  const auto& hosts = cluster.hosts;
  const bool all_alike = std::all_of(hosts.begin(), hosts.end(),
                                     [&](const cluster::Host& host) { return alike(host, hosts.front()); });
  if (all_alike && setting.hosts == static_cast<int>(hosts.size())) setting.hosts = 0;
  const auto has_rate = [&](const cluster::Host& host) {
    return same_rate(host.bandwidth_gbit, setting.link_gbit);
  };
  // Of hosts like the first, its rate is their own.
  const bool own =
      setting.hosts > 0 ? has_rate(hosts.front()) : std::all_of(hosts.begin(), hosts.end(), has_rate);
  if (own) setting.link_gbit = 0;
  return setting;
}

cluster::Cluster cluster_of(const Setting& setting, const cluster::Cluster& cluster) {
  cluster::Cluster result = cluster;
  if (setting.hosts > 0) {
    const int64_t each = cluster.hosts.front().workers;
    if (setting.hosts * each > kMostRanks) {
      bad_input("hosts is {}, with {} ranks each; allowed: at most {} ranks", setting.hosts, each,
                kMostRanks);
    }
    result.links.clear();
    result.hosts.assign(static_cast<size_t>(setting.hosts), cluster.hosts.front());
    for (size_t h = 0; h < result.hosts.size(); ++h) {
      result.hosts[h].chief = h == 0;
      result.hosts[h].address =
          h < cluster.hosts.size() ? cluster.hosts[h].address : fmt::format("host-{}", h + 1);
    }
  }
  if (setting.link_gbit > 0) {
    for (auto& host : result.hosts) host.bandwidth_gbit = setting.link_gbit;
    for (auto& link : result.links) {
      if (link.from != link.to) link.gbit = setting.link_gbit;
    }
  }
  return result;
}

bool begins_with(const cluster::Cluster& cluster, const cluster::Cluster& first) {
  const auto& hosts = cluster.hosts;
  return hosts.size() >= first.hosts.size() &&
         std::equal(first.hosts.begin(), first.hosts.end(), hosts.begin(), alike);
}

int training_hosts(const cluster::Cluster& cluster) {
  return static_cast<int>(std::count_if(cluster.hosts.begin(), cluster.hosts.end(),
                                        [](const cluster::Host& host) { return !host.server_only(); }));
}

double slowest_link_gbit(const cluster::Cluster& cluster) {
  double slowest = std::numeric_limits<double>::infinity();
  for (const auto& host : cluster.hosts) {
    if (!host.server_only()) slowest = std::min(slowest, host.bandwidth_gbit);
  }
  return slowest;
}

}  // namespace entrain::tuner
