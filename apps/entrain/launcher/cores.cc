#include "launcher/cores.h"

#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>

#include "entrain/base/error.h"

namespace entrain::app {

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

std::vector<std::vector<int>> cores_by_host(const cluster::Cluster& cluster, const std::vector<int>& cores) {
  const auto& hosts = cluster.hosts;
  const auto there = static_cast<int>(cores.size());
  int asked = 0, open = 0;
  for (const auto& host : hosts) {
    asked += host.cpus;
    open += host.cpus == 0 ? 1 : 0;
  }
  if (asked + open > there && asked > 0) {
    bad_input("{}: its hosts have {} cpus{}, this machine {}; allowed: at most that many, or no `cpus`",
              cluster.name, asked, open > 0 ? fmt::format(", {} of them one or more", open) : "", there);
  }
  const int each = open > 0 ? (there - asked) / open : 0;
  if (asked == 0 && each < 2) return {};
  std::vector<std::vector<int>> result;
  auto next = cores.begin();
  for (const auto& host : hosts) {
    const int count = host.cpus > 0 ? host.cpus : each;
    result.emplace_back(next, next + count);
    next += count;
  }
  return result;
}

std::string describe_cores(const std::vector<std::vector<int>>& by_host) {
  if (by_host.empty()) return "";
  std::vector<size_t> counts;
  for (const auto& cores : by_host) counts.push_back(cores.size());
  const bool same = std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
  if (same) return fmt::format("{} {} per host", counts.front(), counts.front() == 1 ? "core" : "cores");
  return fmt::format("{} cores", fmt::join(counts, ", "));
}

}  // namespace entrain::app
