// Operations that wait for the other side, and how errors speak of them.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "entrain/transport/transport.h"

namespace entrain::transport {

// What is common to a posted send and a posted receive.
struct Posted {
  int peer = kAnyPeer;
  Tag tag = 0;
  Deadline deadline = Deadline::never();
  Clock::time_point since = Clock::now();
  std::string_view what = {};
  Done done;
};

struct PostedRecv : Posted {
  std::vector<Bytes> into;
};

struct PostedSend : Posted {
  std::vector<ConstBytes> data;
  int priority = 0;
};

template <typename Span>
size_t total_size(const std::vector<Span>& spans) {
  size_t total = 0;
  for (const auto& span : spans) total += span.size();
  return total;
}

// Copies between lists of spans of the same total size.
void copy_spans(const std::vector<ConstBytes>& from, const std::vector<Bytes>& to);

// "all-reduce of fc1.weight, from rank 2"
std::string describe_recv(const Posted& recv);
// "all-reduce of fc1.weight, to rank 2"
std::string describe_send(const Posted& send);

std::string deadline_text(int rank, const Posted& op, const std::string& description);
std::exception_ptr size_error(int rank, const PostedRecv& recv, int sender, size_t message_size);
std::exception_ptr gone_error(int rank, int peer, const std::string& description);
std::exception_ptr closed_error(int rank, const std::string& reason);

// Throws Error unless `peer` is another rank of the world (or, where allowed, any).
void check_peer(const Transport& transport, int peer, bool any_allowed);

}  // namespace entrain::transport
