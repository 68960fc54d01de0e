#include <map>

#include "entrain/base/error.h"
#include "entrain/job/control.h"
#include "entrain/train/apart.h"

namespace entrain::train {

std::vector<std::vector<int>> make_groups(const std::string& groups, const cluster::Cluster& cluster) {
  const std::vector<int> workers = cluster.worker_ranks();
  std::map<int, std::vector<int>> by_host;
  for (const int rank : workers) by_host[cluster.host_of(rank)].push_back(rank);
  if (groups == "one" || (groups == "hosts" && by_host.size() == workers.size())) return {workers};
  std::vector<std::vector<int>> result;
  if (groups == "hosts") {
    for (auto& [host, ranks] : by_host) result.push_back(std::move(ranks));
    return result;
  }
  const auto count = static_cast<size_t>(std::stoi(groups));
  if (count > workers.size()) {
    bad_input("optimizer: groups is {}, allowed: 1 to {} (the workers)", count, workers.size());
  }
  for (size_t g = 0; g < count; ++g) {
    const size_t begin = workers.size() * g / count, end = workers.size() * (g + 1) / count;
    result.emplace_back(workers.begin() + static_cast<std::ptrdiff_t>(begin),
                        workers.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return result;
}

}  // namespace entrain::train
