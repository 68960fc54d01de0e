// Rendezvous: how the ranks of a job find each other's addresses.
//
// One server per job (the launcher's, or rank 0's). Every rank proves the job token, says
// where it listens, and gets the whole table once all have come.
#pragma once

#include <memory>
#include <string>

namespace entrain::rendezvous {

// Serves on a thread of its own until destroyed. A stranger's connection, a wrong token or
// junk is dropped and logged once; the job goes on.
class Server {
 public:
  struct Options {
    std::string bind_address = "127.0.0.1";
    int port = 0;  // 0: chosen by the system; see endpoint()
    int world = 1;
    std::string token;
  };
  // Throws Error naming address and port when they cannot be bound.
  explicit Server(const Options& options);
  ~Server();

  std::string endpoint() const;  // "address:port"

  // A rank that died before it came must not leave the others waiting: fails all who wait.
  void abort(const std::string& reason);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace entrain::rendezvous
