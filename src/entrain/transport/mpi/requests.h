// What the mpi transport asks of MPI: start, messages with a callback each, finish. Also messages of any size
// in parts that MPI can count.
//
// The transport knows MPI only by this interface. What calls MPI (open_mpi.cc) is a shared library of its
// own, libentrain_mpi.so, loaded when an MPI job starts: neither entrain nor a user's program links Open MPI.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "entrain/transport/transport.h"

namespace entrain::transport {

// Everything is called by the thread that called start(), and throws std::runtime_error with MPI's words.
class Requests {
 public:
  using Completed = std::function<void()>;

  virtual ~Requests() = default;

  // MPI_Init. Once in a process: MPI cannot start again.
  struct Place {
    int rank, world;
  };
  virtual Place start() = 0;
  // MPI_Finalize: waits for every rank.
  virtual void finish() = 0;

  // Non-blocking, one MPI message each: their total size is at most kMostBytes, and the memory stays as it is
  // until `completed`. A receive takes a message of its size or shorter.
  virtual void send(int peer, int mpi_tag, const std::vector<ConstBytes>& data, Completed completed) = 0;
  virtual void recv(int peer, int mpi_tag, const std::vector<Bytes>& into, Completed completed) = 0;

  // Calls back what has ended; the callbacks may start more. False when nothing has.
  virtual bool poll() = 0;

  // MPI is never called again: what is under way neither ends nor touches memory any more (unless a network
  // adapter writes by itself). All calls do nothing from now on.
  void abandon() { usable_ = false; }
  bool usable() const { return usable_; }

  static constexpr size_t kMostBytes = size_t{16} << 20;

 private:
  bool usable_ = true;
};

// The function that the plugin exports: `Requests* NAME()`, owned by the caller. The number goes up whenever
// the interface changes, so that a plugin of another version is refused rather than called.
inline constexpr const char* kMpiPluginEntry = "entrain_mpi_requests_1";

// The list in parts of kMostBytes each, the last one shorter.
template <typename Span>
std::vector<std::vector<Span>> in_parts(const std::vector<Span>& spans) {
  std::vector<std::vector<Span>> parts;
  size_t room = 0;
  for (Span span : spans) {
    while (!span.empty()) {
      if (room == 0) {
        parts.emplace_back();
        room = Requests::kMostBytes;
      }
      const size_t n = std::min(room, span.size());
      parts.back().push_back(span.first(n));
      span = span.subspan(n);
      room -= n;
    }
  }
  return parts;
}

}  // namespace entrain::transport
