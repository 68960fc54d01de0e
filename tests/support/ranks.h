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
#include "entrain/transport/inproc/inproc_transport.h"

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

inline void run_ranks(int world, const RankBody& body) { run_ranks(transport::make_inproc(world), body); }

}  // namespace entrain::testing
