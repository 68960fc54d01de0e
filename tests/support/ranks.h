// Ranks as threads of a test: run_ranks(4, [](int rank, Transport& transport) { ... });
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "entrain/base/error.h"
#include "entrain/rendezvous/server.h"
#include "entrain/transport/inproc/inproc_transport.h"
#include "entrain/transport/tcp/tcp_transport.h"

namespace entrain::testing {

using RankBody = std::function<void(int rank, transport::Transport& transport)>;

// Runs `body` once a transport, each on a thread of its own, and closes them: in order after a
// normal return, with the failure's text after a throw (so no rank waits for one that failed).
// Rethrows the first failure.
inline void run_ranks(std::vector<std::unique_ptr<transport::Transport>> transports, const RankBody& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&, t = transport.get()] {
      std::string reason;
      try {
        body(t->rank(), *t);
      } catch (const std::exception& e) {
        reason = e.what();
        std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      t->close(reason);
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

// `world` transports of one job over loopback tcp. `shape_gbit` > 0 shapes every rank's link.
inline std::vector<std::unique_ptr<transport::Transport>> make_tcp(
    int world, double shape_gbit, net::Encryption encryption = net::Encryption::kNever) {
  const rendezvous::Server server({"127.0.0.1", 0, world, "test token"});
  std::vector<std::unique_ptr<transport::Transport>> transports(world);
  std::vector<std::exception_ptr> errors(world);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      rendezvous::JobEnvironment job;
      job.rank = rank;
      job.world = world;
      job.rendezvous = server.endpoint();
      job.token = "test token";
      job.shape_gbit = shape_gbit;
      job.encryption = encryption;
      try {
        transports[rank] = transport::connect_tcp(job, Deadline::after(30));
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return transports;
}
inline std::vector<std::unique_ptr<transport::Transport>> make_tcp(int world) { return make_tcp(world, 0); }

inline void run_ranks(int world, const RankBody& body) { run_ranks(transport::make_inproc(world), body); }

}  // namespace entrain::testing
