// Where the ranks of a job live, and how a rank's process is started there.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "entrain/base/process.h"
#include "entrain/cluster/cluster.h"
#include "entrain/lab/mode.h"
#include "launcher/remote.h"

namespace entrain::app {

class Site {
 public:
  virtual ~Site() = default;

  // Where the ranks of a host listen, and the others reach them.
  virtual std::string address(int host) const = 0;
  // Whether sockets of `host` can be made here, with run_in(). If not, its processes are started over ssh.
  virtual bool here(int /*host*/) const { return true; }
  virtual void run_in(int /*host*/, const std::function<void()>& work) const { work(); }
  // Hosts of a lab: what their ranks say stays on this machine.
  virtual bool emulated() const { return false; }
  // What the transport itself must keep to; 0: no limit.
  virtual double shape_gbit(int /*host*/) const { return 0; }
  // Makes of a process that would run here one that runs on `host`.
  virtual void place(int host, ProcessOptions& process) const = 0;
  // Behind which the output of a rank other than 0 is shown.
  virtual std::string prefix(int /*rank*/) const { return ""; }
};

// Of a local cluster, a lab, or real hosts. Call it before any effect: a lab may run the program again from
// its start (see lab::Lab::create).
std::unique_ptr<Site> make_site(const cluster::Cluster& cluster, const RemoteOptions& remote,
                                bool own_program, const std::string& program);

}  // namespace entrain::app
