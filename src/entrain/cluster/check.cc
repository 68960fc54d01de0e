#include <charconv>
#include <cmath>
#include <map>

#include "entrain/base/error.h"
#include "entrain/cluster/parsers.h"

namespace entrain::cluster {
namespace {

bool is_address(const std::string& text) {
  if (text.empty() || text.size() > 253) return false;
  for (const char c : text) {
    const bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!alnum && c != '.' && c != '-' && c != '_' && c != ':' && c != '%') return false;
  }
  return text[0] != '-';  // would read as an option where an address is handed to a command
}

void check_host(const Host& host, const std::string& origin) {
  if (!is_address(host.address)) {
    bad_input("{}: address is \"{}\", allowed: a host name or an IP address", origin, host.address);
  }
  const auto positive = [&](const char* field, double value) {
    if (!(std::isfinite(value) && value > 0)) {
      bad_input("{}: host {}: {} is {}, allowed: above 0", origin, host.address, field, value);
    }
  };
  const auto not_negative = [&](const char* field, double value) {
    if (!(std::isfinite(value) && value >= 0)) {
      bad_input("{}: host {}: {} is {}, allowed: 0 or more", origin, host.address, field, value);
    }
  };
  positive("network_bandwidth", host.bandwidth_gbit);
  positive("speed", host.speed);
  not_negative("workers", host.workers);
  not_negative("memory_gib", host.memory_gib);
  not_negative("price_per_hour", host.price_per_hour);
}

}  // namespace

void check(const Cluster& cluster, const std::string& origin) {
  if (cluster.hosts.empty()) bad_input("{}: no hosts; at least one is needed", origin);
  std::map<std::string, int> seen;
  int64_t ranks = 0;
  for (const Host& host : cluster.hosts) {
    check_host(host, origin);
    if (++seen[host.address] > 1) bad_input("{}: address {} appears twice", origin, host.address);
    ranks += host.server_only() ? 1 : host.workers;
  }
  if (ranks > kMaxRanks) bad_input("{}: {} ranks, allowed: 1 to {}", origin, ranks, kMaxRanks);
  if (cluster.workers() == 0) bad_input("{}: every host is a server; at least one must train", origin);
  if (cluster.hosts.front().server_only()) {
    bad_input("{}: the first host ({}) is a server, but rank 0 lives there and trains; list a worker first",
              origin, cluster.hosts.front().address);
  }
}

void check_length(const std::string& text, const std::string& origin) {
  constexpr size_t kMost = 2 << 20;  // 4096 hosts have 1 MB
  if (text.size() > kMost) bad_input("{}: {} bytes, allowed: up to {}", origin, text.size(), kMost);
}

int parse_int(std::string_view text, int low, int high, const std::string& what) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    bad_input("{} is \"{}\", allowed: {} to {}", what, text, low, high);
  }
  return value;
}

double parse_not_negative(std::string_view text, const std::string& what) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0) {
    bad_input("{} is \"{}\", allowed: a number, 0 or more", what, text);
  }
  return value;
}

double parse_positive(std::string_view text, const std::string& what) {
  const double value = parse_not_negative(text, what);
  if (value <= 0) bad_input("{} is \"{}\", allowed: a number above 0", what, text);
  return value;
}

}  // namespace entrain::cluster
