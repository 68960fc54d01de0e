// A cluster on one machine: each host a network namespace with an address and a shaped link.
//
//   host 0            host 1                 every box is a network namespace
//   eth0 198.18.0.1   eth0 198.18.0.2        tbf on eth0: what the host sends
//      │                 │
//   ┌──p0────────────────p1──┐               tbf on pN: what the host receives
//   │         br0            │
//   └────────────────────────┘
//
// The namespaces have no names: when the process that made the lab ends, even by kill -9, the
// kernel removes them (its children are killed with it, see base/process.h). Nothing of the
// machine's own network is touched.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/lab/mode.h"
#include "entrain/lab/netns.h"

namespace entrain::lab {

class Lab {
 public:
  // Takes the first mode that works here (see why_not()), or `forced`. Throws Error with the failing
  // command when a forced mode does not work; without one, says on stderr why it shapes in user space.
  // May run the program again from its start: see enter_user_namespace().
  static std::unique_ptr<Lab> create(const cluster::Cluster& cluster,
                                     std::optional<LabMode> forced = mode_from_environment());

  LabMode mode() const { return mode_; }
  int hosts() const { return static_cast<int>(addresses_.size()); }
  std::string address(int host) const { return addresses_.at(host); }

  // For ProcessOptions::in_child: joins the host. False: failed, errno says why.
  bool enter(int host) const { return mode_ == LabMode::kUserSpace || namespaces_[host].enter(); }

  // Runs `work` on a thread inside the host, e.g. to bind a socket there. Rethrows.
  void run_in(int host, const std::function<void()>& work) const;

  // What the program itself must keep to: the host's bandwidth in mode kUserSpace, else 0.
  double shape_gbit(int host) const { return mode_ == LabMode::kUserSpace ? gbit_.at(host) : 0; }

  // Pulls the host's cable, and plugs it in again. Throws Error in mode kUserSpace.
  void cut(int host);
  void restore(int host);

 private:
  Lab(const cluster::Cluster& cluster, LabMode mode);
  void build();
  void add_host(int host);

  LabMode mode_;
  std::vector<std::string> addresses_;
  std::vector<double> gbit_;
  std::vector<NetworkNamespace> namespaces_;
  std::vector<NetworkNamespace> switch_;  // one, or none in mode kUserSpace
};

}  // namespace entrain::lab
