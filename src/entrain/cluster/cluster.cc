#include "entrain/cluster/cluster.h"

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/cluster/parsers.h"

namespace entrain::cluster {
namespace {

// Nominal values for pairs that nobody measured.
constexpr double kInsideHostGbit = 40;
constexpr double kInsideHostLatency = 20e-6;
constexpr double kBetweenHostsLatency = 100e-6;

int ranks_on(const Host& host) { return host.server_only() ? 1 : host.workers; }

// The pair's measurement, or the opposite direction's when only that one was taken.
const Link* find_link(const std::vector<Link>& links, int from, int to) {
  const Link* opposite = nullptr;
  for (const Link& link : links) {
    if (link.from == from && link.to == to) return &link;
    if (link.from == to && link.to == from) opposite = &link;
  }
  return opposite;
}

}  // namespace

int Cluster::world() const {
  int sum = 0;
  for (const Host& host : hosts) sum += ranks_on(host);
  return sum;
}

int Cluster::workers() const {
  int sum = 0;
  for (const Host& host : hosts) sum += host.workers;
  return sum;
}

std::vector<int> Cluster::worker_ranks() const {
  std::vector<int> ranks;
  int next = 0;
  for (const Host& host : hosts) {
    for (int i = 0; i < host.workers; ++i) ranks.push_back(next + i);
    next += ranks_on(host);
  }
  return ranks;
}

int Cluster::host_of(int rank) const {
  int next = 0;
  for (size_t i = 0; i < hosts.size() && rank >= 0; ++i) {
    next += ranks_on(hosts[i]);
    if (rank < next) return static_cast<int>(i);
  }
  fail("rank {} is outside the cluster {} of {} ranks", rank, name, world());
}

int Cluster::first_rank(int host) const {
  if (host < 0 || host >= static_cast<int>(hosts.size())) {
    fail("host {} is outside the cluster {} of {} hosts", host, name, hosts.size());
  }
  int first = 0;
  for (int i = 0; i < host; ++i) first += ranks_on(hosts[i]);
  return first;
}

bool Cluster::is_worker(int rank) const { return !hosts[host_of(rank)].server_only(); }

Cluster restricted(const Cluster& cluster, const std::vector<int>& ranks) {
  Cluster result = cluster;
  result.hosts.clear();
  result.links.clear();
  std::vector<int> place(cluster.hosts.size(), -1);  // of a host, in the result
  for (const int rank : ranks) {
    const int host = cluster.host_of(rank);
    if (place[host] < 0) {
      place[host] = static_cast<int>(result.hosts.size());
      result.hosts.push_back(cluster.hosts[host]);
      result.hosts.back().workers = 0;
    }
    ++result.hosts.back().workers;
  }
  for (Link link : cluster.links) {
    link.from = place[link.from];
    link.to = place[link.to];
    if (link.from >= 0 && link.to >= 0) result.links.push_back(link);
  }
  return result;
}

std::string host_part(const std::string& device) {
  for (const char* kind : {":CPU:", ":GPU:"}) {
    const size_t at = device.rfind(kind);
    if (at == std::string::npos) continue;
    const std::string index = device.substr(at + 5);
    if (!index.empty() && index.find_first_not_of("0123456789") == std::string::npos)
      return device.substr(0, at);
  }
  return device;
}

int Cluster::find(const std::string& address) const {
  const std::string wanted = host_part(address);
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].address == wanted) return static_cast<int>(i);
  }
  return -1;
}

double Cluster::gbit(int from, int to) const {
  if (const Link* link = find_link(links, from, to)) return link->gbit;
  if (from == to) return kInsideHostGbit;
  return std::min(hosts.at(from).bandwidth_gbit, hosts.at(to).bandwidth_gbit);
}

double Cluster::latency_s(int from, int to) const {
  if (const Link* link = find_link(links, from, to)) return link->latency_s;
  return from == to ? kInsideHostLatency : kBetweenHostsLatency;
}

Cluster parse(const std::string& text_or_path) {
  if (is_shorthand(text_or_path)) return cluster_from_shorthand(text_or_path);
  const std::filesystem::path path = text_or_path;
  std::error_code ignored;
  if (text_or_path.empty() || !std::filesystem::exists(path, ignored)) {
    bad_input(
        "cluster \"{}\" is neither a file nor a shorthand; allowed: local:4, lab:4x1gbit, "
        "lab:1x10gbit+3x1gbit[/server][/ranks=2][/speed=0.5][/cpus=1], a cluster.yml, a hostfile",
        text_or_path);
  }
  const std::string content = read_file(path);
  const bool yaml = path.extension() == ".yml" || path.extension() == ".yaml";
  return yaml ? cluster_from_yaml(content, text_or_path) : cluster_from_hostfile(content, text_or_path);
}

}  // namespace entrain::cluster
