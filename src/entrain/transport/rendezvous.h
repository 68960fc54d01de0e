// Rendezvous: how the ranks of a job find each other's addresses.
//
// One server a job (the launcher's, or rank 0's). Every rank proves the job token, says
// where it listens, and gets the whole table once all have come.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "entrain/base/clock.h"

namespace entrain::transport {

// Serves on a thread of its own until destroyed. A stranger's connection, a wrong token or
// junk is dropped (and logged once) and disturbs nobody.
class RendezvousServer {
 public:
  struct Options {
    std::string bind_address = "127.0.0.1";
    int port = 0;  // 0: chosen by the system; see endpoint()
    int world = 1;
    std::string token;
  };
  // Throws Error naming address and port when they cannot be bound.
  explicit RendezvousServer(const Options& options);
  ~RendezvousServer();

  std::string endpoint() const;  // "address:port"

  // A rank that died before it came must not leave the others waiting: fails all who wait.
  void abort(const std::string& reason);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// What a rank must know to join its job. `entrain launch` passes it in the environment; how other launchers
// say it: launch_environment.h.
struct JobEnvironment {
  int rank = 0;
  int world = 1;
  std::string rendezvous;                  // "address:port"                    ENTRAIN_RENDEZVOUS
  std::string token;                       // shared secret of the job          ENTRAIN_TOKEN
  std::string bind_address = "127.0.0.1";  // the interface to listen on        ENTRAIN_BIND
  double shape_gbit = 0;                   // > 0: shape my link in user space  ENTRAIN_SHAPE_GBIT
  double timeout_s = 120;                  // deadline of one operation         ENTRAIN_TIMEOUT
  bool serve = false;                      // run the rendezvous in this rank   ENTRAIN_SERVE=1
};

// As "NAME=value" strings, for a child process; launch_environment.h reads them.
std::vector<std::string> to_environment(const JobEnvironment& job);

}  // namespace entrain::transport
