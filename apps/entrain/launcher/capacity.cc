#include "launcher/capacity.h"

#include <cstdlib>
#include <fstream>
#include <string_view>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/base/units.h"

namespace entrain::app {
namespace {

// Memory of a rank's process that it shares with no other, measured with 6 ranks of a small model; the model
// and what is under way between ranks come on top.
constexpr double kBytesPerRank = 65e6;

constexpr int kManyPerCore = 8;   // more: the user is warned
constexpr int kMostPerCore = 32;  // more hardly start before the ranks give each other up

bool overcommit_allowed() {
  const char* value = std::getenv("ENTRAIN_OVERCOMMIT");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::ifstream in("/proc/meminfo");
  std::string name, unit;
  for (double kilobytes = 0; in >> name >> kilobytes && std::getline(in, unit);) {
    if (name == "MemAvailable:") machine.free_bytes = kilobytes * 1024;
  }
  return machine;
}

std::string check_capacity(const cluster::Cluster& cluster, const Machine& machine) {
  if (cluster.kind == cluster::Kind::kHosts) return "";
  const int ranks = cluster.world();
  const double needed = ranks * kBytesPerRank;
  const bool too_large = machine.free_bytes > 0 && needed > machine.free_bytes;
  if ((too_large || ranks > kMostPerCore * machine.cores) && !overcommit_allowed()) {
    bad_input(
        "cluster {}: {} ranks are too many for {} cores and {} of free memory (they need at least {}, "
        "without the "
        "model); ENTRAIN_OVERCOMMIT=1 starts them anyway",
        cluster.name, ranks, machine.cores, format_bytes(machine.free_bytes), format_bytes(needed));
  }
  if (ranks <= kManyPerCore * machine.cores) return "";
  return fmt::format(
      "cluster {}: {} ranks share {} cores and {} of free memory: starting takes a while, and computing "
      "about "
      "{}x as long as on hosts of their own",
      cluster.name, ranks, machine.cores, format_bytes(machine.free_bytes), ranks / machine.cores);
}

void warn_of_capacity(const cluster::Cluster& cluster) {
  const std::string warning = check_capacity(cluster, this_machine());
  if (!warning.empty()) log_warn("{}", warning);
}

}  // namespace entrain::app
