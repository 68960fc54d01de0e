#include "entrain/lab/lab.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <span>
#include <sstream>

#include "entrain/base/error.h"
#include "entrain/base/log.h"

namespace entrain::lab {
namespace {

// A command line without quoting: our arguments hold no spaces.
std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

// What a host's link holds. Between namespaces one "packet" is a whole 64 KB TCP segment, and tbf
// cuts up what exceeds its bucket, so the bucket holds two of them, or a millisecond where that
// is more. The queue is a switch's: deep enough that hosts which send to one host at once find
// their shares without timeouts, shallow enough that acknowledgements on their way through it
// are not late (at 50 ms, a fast host sending to a slow one slowed what the slow one sent: by 8 % under
// cubic, 43 % under bbr, one run each).
// On a slow link 15 ms are a few of those packets: three hosts that send to one lost some, and a lost one
// costs TCP 200 ms (partitioned-ps of 1.4 MB, two of four hosts at 200 Mbit/s: steps of 182 +- 109 ms, and
// with 2 MB of queue 134 +- 18 ms), so a slow link has the queue of one of 1 Gbit/s.
// A link can carry at most 1448/1514 of its rate as TCP payload (MTU 1500).
constexpr double kBucketSeconds = 0.001;
constexpr double kBucketBytes = 128 * 1024;
constexpr double kQueueSeconds = 0.015;
constexpr double kQueueBytes = 2e6;

// Every program in a lab gets the same congestion control, whatever the machine prefers: cubic is Linux's own
// default, reno is what every namespace may use (a machine that prefers another may keep cubic for itself),
// and over links this short both are the same. bbr stops for 200 ms in every 10 s to see the shortest
// round trip, and was slower at 10 Gbit/s and where fast and slow hosts meet.
constexpr std::array<const char*, 2> kCongestionControls = {"cubic", "reno"};

std::vector<std::string> shape_command(const std::string& device, double gbit) {
  const double bytes_per_s = gbit * 1e9 / 8;
  const auto burst = static_cast<int64_t>(std::max(kBucketBytes, bytes_per_s * kBucketSeconds));
  const auto limit = static_cast<int64_t>(std::max(bytes_per_s * kQueueSeconds, kQueueBytes)) + burst;
  const auto rate = fmt::format("{}bit", static_cast<int64_t>(gbit * 1e9));
  return words(
      fmt::format("tc qdisc add dev {} root tbf rate {} burst {} limit {}", device, rate, burst, limit));
}

// Sets `name` of the namespace that the calling thread is in to the first of `values` that it takes. One that
// this kernel lacks is no error.
void set_sysctl(const std::string& name, std::span<const char* const> values) {
  for (const char* value : values) {
    const OwnedFd fd(open(("/proc/sys/net/" + name).c_str(), O_WRONLY | O_CLOEXEC));
    if (fd.get() >= 0 && write(fd.get(), value, strlen(value)) > 0) return;
  }
  log_debug("lab: net.{} stays as it is", name);
}

void disable_ipv6() { set_sysctl("ipv6/conf/default/disable_ipv6", std::array{"1"}); }

std::string port_name(int host) { return fmt::format("p{}", host); }

LabMode choose_mode() {
  const std::string no_root = why_not(LabMode::kRoot);
  if (no_root.empty()) return LabMode::kRoot;
  const std::string no_user = why_not(LabMode::kUserNamespace);
  if (no_user.empty()) return LabMode::kUserNamespace;
  log_warn("lab: no network namespaces here ({}); links are shaped in user space, by entrain itself",
           no_user);
  return LabMode::kUserSpace;
}

}  // namespace

std::unique_ptr<Lab> Lab::create(const cluster::Cluster& cluster, std::optional<LabMode> forced) {
  const LabMode mode = forced ? *forced : choose_mode();
  std::unique_ptr<Lab> lab(new Lab(cluster, mode));
  if (mode == LabMode::kUserSpace) return lab;
  try {
    if (mode == LabMode::kUserNamespace) enter_user_namespace();
    lab->build();
  } catch (const Error& e) {
    fail("cannot build the lab (mode {}): {}; `entrain lab check` says what works here", to_string(mode),
         e.what());
  }
  return lab;
}

Lab::Lab(const cluster::Cluster& cluster, LabMode mode) : mode_(mode) {
  for (size_t i = 0; i < cluster.hosts.size(); ++i) {
    const auto& host = cluster.hosts[i];
    if (host.bandwidth_gbit <= 0) {
      bad_input("host {}: bandwidth {} Gbit/s must be above 0", host.address, host.bandwidth_gbit);
    }
    gbit_.push_back(host.bandwidth_gbit);
    // All of 127.0.0.0/8 is this machine; an address per host tells them apart in messages.
    addresses_.push_back(mode == LabMode::kUserSpace ? fmt::format("127.0.{}.{}", i / 250, i % 250 + 1)
                                                     : host.address);
  }
}

void Lab::build() {
  switch_.push_back(NetworkNamespace::create());
  switch_[0].run(disable_ipv6);
  switch_[0].command(words("ip link add br0 type bridge forward_delay 0 mcast_snooping 0"));
  switch_[0].command(words("ip link set br0 up"));
  for (int host = 0; host < hosts(); ++host) add_host(host);
}

void Lab::add_host(int host) {
  namespaces_.push_back(NetworkNamespace::create());
  const auto& inside = namespaces_.back();
  const auto& outside = switch_[0];
  const std::string port = port_name(host);
  inside.run([] {
    disable_ipv6();
    set_sysctl("ipv4/tcp_congestion_control", kCongestionControls);
  });
  outside.command(
      words(fmt::format("ip link add {} type veth peer name eth0 netns /proc/self/fd/{}", port, inside.fd())),
      inside.fd());
  outside.command(words(fmt::format("ip link set {} master br0 up", port)));
  outside.command(shape_command(port, gbit_[host]));
  inside.command(words("ip link set lo up"));
  inside.command(words(fmt::format("ip address add {}/15 dev eth0", address(host))));
  inside.command(shape_command("eth0", gbit_[host]));
  inside.command(words("ip link set eth0 up"));
}

void Lab::run_in(int host, const std::function<void()>& work) const {
  if (mode_ == LabMode::kUserSpace) {
    work();
  } else {
    namespaces_.at(host).run(work);
  }
}

void Lab::cut(int host) {
  if (mode_ == LabMode::kUserSpace) fail("a lab in user space has no cable to cut");
  switch_[0].command(words(fmt::format("ip link set {} down", port_name(host))));
}

void Lab::restore(int host) {
  if (mode_ == LabMode::kUserSpace) fail("a lab in user space has no cable to restore");
  switch_[0].command(words(fmt::format("ip link set {} up", port_name(host))));
}

}  // namespace entrain::lab
