// MPI's requests, with a callback each; and messages of any size in pieces that MPI can count.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "entrain/base/error.h"
#include "entrain/transport/transport.h"

namespace entrain::transport {

// MPI itself reports a failure. What a request was for is not known any more.
class MpiError : public Error {
 public:
  using Error::Error;
};

// Non-blocking sends and receives under way. Everything is called by the thread that called MPI_Init; the
// callbacks run in poll(), and may start more. Throws MpiError.
class Requests {
 public:
  using Completed = std::function<void()>;

  // One MPI message each: their total size is at most kMostBytes, and the memory stays as it is until
  // `completed`. A receive takes a message of its size or shorter.
  void send(int peer, int mpi_tag, const std::vector<ConstBytes>& data, Completed completed);
  void recv(int peer, int mpi_tag, const std::vector<Bytes>& into, Completed completed);

  // Calls back what has ended. False when nothing has.
  bool poll();

  // MPI is never called again: what is under way neither ends nor touches memory any more (unless a network
  // adapter writes by itself). All calls do nothing from now on.
  void abandon() { usable_ = false; }
  bool usable() const { return usable_; }

  static constexpr size_t kMostBytes = size_t{16} << 20;

 private:
  void add(MPI_Request request, Completed completed);

  bool usable_ = true;
  std::vector<MPI_Request> requests_;  // MPI_REQUEST_NULL: a free place
  std::vector<Completed> completed_;   // in the same places
  std::vector<size_t> free_;
  std::vector<int> ended_;
  std::vector<MPI_Status> statuses_;
};

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
