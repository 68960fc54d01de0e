#include "entrain/transport/posted.h"

#include "entrain/base/error.h"

namespace entrain::transport {
namespace {

std::string name_of(const Posted& op) {
  return op.what.empty() ? fmt::format("a message with tag {:#x}", op.tag) : std::string(op.what);
}

}  // namespace

void copy_spans(const std::vector<ConstBytes>& from, const std::vector<Bytes>& to) {
  size_t target = 0, offset = 0;
  for (ConstBytes source : from) {
    while (!source.empty()) {
      while (offset == to[target].size()) ++target, offset = 0;
      const size_t n = std::min(source.size(), to[target].size() - offset);
      std::memcpy(to[target].data() + offset, source.data(), n);
      source = source.subspan(n);
      offset += n;
    }
  }
}

std::string describe_recv(const Posted& recv) {
  if (recv.peer == kAnyPeer) return fmt::format("{}, from any rank", name_of(recv));
  return fmt::format("{}, from rank {}", name_of(recv), recv.peer);
}

std::string describe_send(const Posted& send) {
  return fmt::format("{}, to rank {}", name_of(send), send.peer);
}

std::string deadline_text(int rank, const Posted& op, const std::string& description) {
  return fmt::format("rank {} gave up after {:.1f} s: {}", rank, seconds_since(op.since), description);
}

std::exception_ptr size_error(int rank, const PostedRecv& recv, int sender, size_t message_size) {
  return std::make_exception_ptr(PeerError(
      sender, fmt::format("rank {} expected {} bytes but rank {} sent {}: {} (do both run the same job?)",
                          rank, total_size(recv.into), sender, message_size, describe_recv(recv))));
}

std::exception_ptr gone_error(int rank, int peer, const std::string& description) {
  if (peer == kAnyPeer) {
    return std::make_exception_ptr(PeerError(
        peer,
        fmt::format("all other ranks have ended while rank {} still needs one: {}", rank, description)));
  }
  return std::make_exception_ptr(PeerError(
      peer, fmt::format("rank {} has ended while rank {} still needs it: {}. Every rank must take the same "
                        "number of steps: entrain::any() lets them stop together",
                        peer, rank, description)));
}

std::exception_ptr closed_error(int rank, const std::string& reason) {
  if (reason.empty()) {
    return std::make_exception_ptr(PeerError(rank, fmt::format("rank {} closed its transport", rank)));
  }
  return std::make_exception_ptr(PeerError(rank, fmt::format("rank {} ended the job: {}", rank, reason)));
}

void check_peer(const Transport& transport, int peer, bool any_allowed) {
  if (any_allowed && peer == kAnyPeer) return;
  if (peer < 0 || peer >= transport.size() || peer == transport.rank()) {
    fail("rank {} cannot exchange messages with rank {}: peers are the other ranks of 0..{}",
         transport.rank(), peer, transport.size() - 1);
  }
}

}  // namespace entrain::transport
