// Transport: tagged point-to-point messages between the ranks of one job.
//
// A message is matched by (sender, tag). Sends and receives are posted and complete
// later, in any order, through a callback; nothing here blocks but close(). A message
// that arrives before its receive is posted is kept by the transport.
//
//   sender                     receiver
//   post_send(1, tag, data) ─▶ post_recv(0, tag, into)      `into` is filled, or
//   done({})                   done({payload})              `payload` is the transport's own buffer
//
// Failure: the first failure of a job wins. When a peer dies, is cut off, breaks the
// protocol or lets a deadline pass, every posted operation of this rank, and every later
// one, completes with that same PeerError, and the other peers are told the reason.
// Unless losses are tolerated: see tolerate_losses().
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "entrain/base/clock.h"

namespace entrain::transport {

using Tag = uint64_t;
using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

constexpr int kAnyPeer = -1;

// Tags at and above this are entrain's own control traffic (barrier, agreement, ...).
constexpr Tag kControlTags = Tag{1} << 63;

class BufferPool;

// A buffer the transport allocated for a message whose receive gave none. Its memory goes back to the
// transport's pool (which it keeps alive) when it is destroyed. Movable; left uninitialised.
class Payload {
 public:
  Payload() = default;
  explicit Payload(size_t size) : data_(new std::byte[size]), size_(size) {}
  Payload(std::shared_ptr<BufferPool> pool, size_t size);
  Payload(Payload&& other) noexcept { *this = std::move(other); }
  Payload& operator=(Payload&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  Bytes bytes() { return {data_.get(), size_}; }
  ConstBytes bytes() const { return {data_.get(), size_}; }
  size_t size() const { return size_; }

 private:
  struct Recycle {
    void operator()(std::byte* data) const;
    std::shared_ptr<BufferPool> pool;  // null: plain heap
    size_t size;
  };
  std::unique_ptr<std::byte[], Recycle> data_;
  size_t size_ = 0;
};

// How a posted operation ended. `error` is null on success.
struct Result {
  int peer = kAnyPeer;  // who sent (of interest after a receive from any peer)
  Payload payload;      // receives that gave no buffer
  std::exception_ptr error;
};

// Called exactly once, on the transport's own thread (inproc: possibly on the posting or a
// peer's thread; after close(), on the posting one). The callbacks of one rank do not overlap before close().
// Must not block or throw, and may post.
using Done = std::function<void(Result)>;

struct SendOptions {
  int priority = 0;  // lower goes first among what waits for the same peer
  Deadline deadline = Deadline::never();
  std::string_view what = {};  // named in errors, e.g. "all-reduce of fc1.weight"; outlives `done`
};

struct RecvOptions {
  Deadline deadline = Deadline::never();
  std::string_view what = {};
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends the concatenation of `data` to `peer` (never to itself). The memory stays the caller's and
  // unchanged until `done`. Thread-safe.
  virtual void post_send(int peer, Tag tag, std::vector<ConstBytes> data, SendOptions options, Done done) = 0;

  // Receives one message from `peer` (or kAnyPeer). With `into` non-empty, its total size
  // must equal the message's (else the job fails: mismatched ranks); empty: the result's
  // payload holds the message, whatever its size. Thread-safe.
  virtual void post_recv(int peer, Tag tag, std::vector<Bytes> into, RecvOptions options, Done done) = 0;

  // Ends the job: posted operations fail with `reason`, peers learn it. An empty reason is
  // an orderly end: peers are not failed by it unless they still expect a message from here.
  // Idempotent; returns when no callback runs or will run.
  virtual void close(const std::string& reason) = 0;

  // Ends the job, as close(reason) does but at once and without waiting, because `suspect` has let this
  // rank wait; `what` says for what. Blamed is the rank whose whole process has fallen silent, if there is
  // one: in a ring everyone waits for a neighbour, but only one of them is stopped.
  virtual void give_up(int suspect, const std::string& what) = 0;

  // From now on a peer that dies, is cut off, ends its job or lets a deadline pass is lost, and no more:
  // what needs that peer ends with a PeerError naming it, later operations on it do so at once, and all else
  // goes on. A receive from any peer fails when no peer is left, or alone when its own deadline passes.
  // Messages that had arrived are still delivered. A lost peer does not come back.
  // Requires: every rank calls it, before it may have to. Thread-safe.
  virtual void tolerate_losses() = 0;

  // Seconds since the process of `peer` was last heard of: a living one says something every second, however
  // busy its threads are. Infinite when the peer has ended or is lost. Thread-safe.
  virtual double silence_s(int peer) const = 0;

  // Payload bytes sent to peers since the start (headers not counted).
  virtual uint64_t bytes_sent() const = 0;
};

// Blocking forms, for control traffic and tests. Throw the operation's error.
void send(Transport& transport, int peer, Tag tag, ConstBytes data, SendOptions options = {});
Payload recv(Transport& transport, int peer, Tag tag, RecvOptions options = {});
void recv_into(Transport& transport, int peer, Tag tag, Bytes into, RecvOptions options = {});

// Small collectives for control: agree on settings, gather results. Every rank calls them in
// the same order with the same `tag`, which must be at least kControlTags.
void barrier(Transport& transport, Tag tag, Deadline deadline, std::string_view what = "barrier");
// Returns root's `data` on every rank.
std::string broadcast(Transport& transport, int root, std::string data, Tag tag, Deadline deadline,
                      std::string_view what = "broadcast");
// Returns everyone's `data` in rank order on `root`, and an empty vector elsewhere.
std::vector<std::string> gather(Transport& transport, int root, std::string data, Tag tag, Deadline deadline,
                                std::string_view what = "gather");

inline std::string_view as_text(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline ConstBytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace entrain::transport
