// A rank's place in its job: what it must know to join.
#pragma once

#include <string>
#include <vector>

#include "entrain/net/handshake.h"

namespace entrain::rendezvous {

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
  // Which connections of ranks are TLS: ENTRAIN_TLS=1 all, 0 none, not set those between hosts.
  net::Encryption encryption = net::Encryption::kBetweenHosts;
};

// ENTRAIN_TLS: 1, 0 or empty. Throws InputError naming it.
net::Encryption parse_encryption(const std::string& text);

// As "NAME=value" strings, for a child process; launch_environment.h reads them.
std::vector<std::string> to_environment(const JobEnvironment& job);

}  // namespace entrain::rendezvous
