// D: the cluster. Hosts, their links, and which rank lives where.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace entrain::cluster {

struct Host {
  std::string address;
  int cpus = 0;  // 0: unknown
  int gpus = 0;
  bool chief = false;         // rank 0 lives on the first host; AutoDist calls it the chief
  double bandwidth_gbit = 1;  // of its link, each direction
  int workers = 1;            // ranks that train; 0: a host that only serves parameters
  double memory_gib = 0;      // 0: unknown
  double speed = 1;           // compute speed relative to the fastest host
  double price_per_hour = 0;
  std::string ssh_config;  // which of Cluster::ssh reaches it; empty: none

  bool server_only() const { return workers == 0; }
};

// A measured pair; hosts are indices. Without one, the pair gets the opposite direction's
// measurement, else min(bandwidths) and a default latency.
struct Link {
  int from;
  int to;
  double gbit;
  double latency_s;
};

// How ssh reaches a host, as in AutoDist's resource spec. Empty, or port 0: as ssh itself decides.
struct SshConfig {
  std::string username;
  int port = 0;
  std::string key_file;
  std::map<std::string, std::string> shared_envs;  // environment variables of the ranks there
};

enum class Kind { kHosts, kLocal, kLab };

// Ranks are numbered host by host; a server-only host has exactly one rank, which serves.
struct Cluster {
  Kind kind = Kind::kHosts;
  std::string name;  // what the user wrote: "lab:4x1gbit", a path
  std::vector<Host> hosts;
  std::vector<Link> links;
  std::map<std::string, SshConfig> ssh = {};  // by the name that hosts give as ssh_config

  int world() const;                      // all ranks, servers too
  int workers() const;                    // how many ranks train
  std::vector<int> worker_ranks() const;  // those that do, ascending
  int host_of(int rank) const;            // index into hosts
  int first_rank(int host) const;         // the rank that serves for this host
  bool is_worker(int rank) const;
  int find(
      const std::string& address) const;  // index or -1; takes "10.0.0.1" and AutoDist's "10.0.0.1:CPU:0"
  double gbit(int from, int to) const;    // between two hosts
  double latency_s(int from, int to) const;
};

// The cluster of some ranks only, numbered anew in their order. Requires: `ranks` ascending, all workers.
Cluster restricted(const Cluster& cluster, const std::vector<int>& ranks);

// The host of a device: "10.0.0.1" of AutoDist's "10.0.0.1:CPU:0"; anything else is returned as it is.
std::string host_part(const std::string& device);

// "local:4", "lab:4x1gbit", "lab:1x10gbit+3x1gbit", "lab:4x1gbit+1x10gbit/server",
// "lab:2x1gbit/ranks=2", a cluster.yml, or a hostfile (one "address slots=4" per line).
// Throws InputError naming what is wrong, where, and the allowed forms.
Cluster parse(const std::string& text_or_path);

// cluster.yml: a superset of AutoDist's resource spec (README.md lists the fields). The chief is moved
// to the front. `origin` names the text in errors: InputError "ORIGIN:LINE: ...".
// A lab or local cluster comes back as such, so a probed one can be started again.
Cluster cluster_from_yaml(const std::string& yaml, const std::string& origin);
std::string to_yaml(const Cluster& cluster);

}  // namespace entrain::cluster
