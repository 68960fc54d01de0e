// TcpRank's I/O thread: the first failure, deadlines, and how a connection ends.
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <limits>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/transport/tcp/tcp_rank.h"

namespace entrain::transport {
namespace {

// How long a farewell may take to reach the peer. Closing earlier could reset the connection and
// destroy what the peer has not read yet.
constexpr auto kLinger = std::chrono::milliseconds(1000);

}  // namespace

// The first failure wins: all that is posted ends with it, and every peer is told.
void TcpRank::fail(std::exception_ptr error) {
  if (failed_) return;
  failed_ = true;
  std::vector<Done> doomed;
  const auto doom = [&](Posted& op) { doomed.push_back(std::move(op.done)); };
  {
    std::lock_guard lock(mutex_);
    error_ = error;
    table_.for_each_recv(doom);
    table_.clear();
    for (auto& queue : queues_) {
      for (auto& [priority, frame] : queue) {
        if (frame.op) doom(*frame.op);
      }
      queue.clear();
    }
    for (auto& c : connections_) {
      if (c->incoming && c->incoming->recv) doom(*c->incoming->recv);
      c->incoming.reset();
    }
  }
  for (auto& c : connections_) {
    c->reader.discard();  // before the callbacks: receivers' memory is theirs again
    for (OutFrame& frame : c->writer.take_untouched()) {
      if (frame.op) doom(*frame.op);
    }
    if (c->socket) c->eof ? drop(*c) : send_abort(*c);
  }
  for (Done& done : doomed) done({.peer = kAnyPeer, .payload = {}, .error = error});
}

// Only what needs this peer ends. A receive from any peer whose message is cut short waits for another.
void TcpRank::lose(int lost, std::exception_ptr error) {
  Connection& c = *connections_[lost];
  if (!c.socket) return;
  c.reader.discard();  // before the callbacks: receivers' memory is theirs again
  std::vector<Done> doomed;
  std::optional<PostedRecv> cut_short;
  std::shared_ptr<Incoming> other;
  {
    std::lock_guard lock(mutex_);
    gone_[c.peer] = true;
    lost_[c.peer] = error;
    for (auto& [priority, frame] : queues_[c.peer]) {
      if (frame.op) doomed.push_back(std::move(frame.op->done));
    }
    queues_[c.peer].clear();
    table_.erase_arrivals([&](int peer, const auto& each) { return peer == c.peer && !each->complete; });
    if (c.incoming) cut_short.swap(c.incoming->recv);
    c.incoming.reset();
    if (cut_short && cut_short->peer == kAnyPeer) {
      watch(cut_short->deadline);
      other = match(*cut_short);
      if (!other) cut_short.reset();
    }
  }
  for (OutFrame& frame : c.writer.take_all()) {
    if (frame.op) doomed.push_back(std::move(frame.op->done));
  }
  c.socket.reset();
  c.linger = Clock::time_point::max();
  c.throttled = c.blocked = false;
  if (cut_short && !other) doomed.push_back(std::move(cut_short->done));
  for (Done& done : doomed) done({.peer = c.peer, .payload = {}, .error = error});
  if (other) deliver(std::move(*cut_short), *other);
  end_hopeless();
}

void TcpRank::send_abort(Connection& c) {
  auto [culprit, reason] = abort_of(error_);
  if (reason.size() > kMaxAbortReason) reason.resize(kMaxAbortReason);
  c.linger = Clock::now() + kLinger;
  c.throttled = false;
  if (!c.shut) {
    OutFrame frame;
    // Sign-extended through the unsigned tag, so that "no rank in particular" survives.
    frame.header = {FrameType::kAbort, static_cast<Tag>(static_cast<int64_t>(culprit)), reason.size()};
    frame.text = std::move(reason);
    c.writer.push(std::move(frame));
    c.farewell = Farewell::kAbort;
  }
  update_events(c);
  if (!c.blocked) write(c);
}

// The peer's last byte has been read.
void TcpRank::on_end(Connection& c, const std::string& how) {
  if (!c.socket) return;  // what it said last had it lost
  c.eof = true;
  if (failed_) {
    if (c.writer.empty()) return drop(c);
    return update_events(c);
  }
  const std::string need = describe_need(c);
  if (c.goodbye) {
    if (tolerant_ && !c.shut) {
      return lose(c.peer, std::make_exception_ptr(PeerError(c.peer, fmt::format("{} has ended", c.name))));
    }
    {
      std::lock_guard lock(mutex_);
      gone_[c.peer] = true;
    }
    const std::string wanted = describe_need(c);  // now including a receive from any rank, if all are gone
    if (!wanted.empty()) return fail(gone_error(rank_, c.peer, wanted));
    if (!closing_ || c.shut) return drop(c);
    return update_events(c);
  }
  if (c.shut) return drop(c);  // both are leaving; it did so in a hurry
  std::string text = fmt::format("{} {}", c.name, how);
  if (!need.empty()) text += fmt::format(" while rank {} waited for: {}", rank_, need);
  fail_peer(c.peer, std::make_exception_ptr(PeerError(c.peer, text)));
}

// What the peer said last may explain the error (an ABORT): read that first.
void TcpRank::on_write_error(Connection& c, int code) {
  if (failed_) return drop(c);
  while (c.socket && !failed_) {
    const auto outcome = read_once(c);
    if (outcome.status != FrameReader::Status::kOpen || outcome.bytes == 0) break;
  }
  if (failed_) {
    if (c.socket) drop(c);
  } else {
    on_end(c, code == EPIPE || code == ECONNRESET ? "closed the connection"
                                                  : fmt::format("is cut off ({})", std::strerror(code)));
  }
}

// The operation that has waited longest for this peer, or nothing.
std::string TcpRank::describe_need(Connection& c) {
  std::lock_guard lock(mutex_);
  const PostedRecv* recv = table_.oldest_recv([&](const PostedRecv& each) {
    return each.peer == c.peer || (each.peer == kAnyPeer && is_gone(kAnyPeer));
  });
  if (recv) return describe_recv(*recv);
  if (c.incoming && c.incoming->recv) return describe_recv(*c.incoming->recv);
  std::string text;
  c.writer.for_each_op([&](const Posted& op) {
    if (text.empty()) text = describe_send(op);
  });
  for (const auto& [priority, frame] : queues_[c.peer]) {
    if (text.empty() && frame.op) text = describe_send(*frame.op);
  }
  return text;
}

void TcpRank::drop(Connection& c) {
  c.socket.reset();
  c.linger = Clock::time_point::max();
  c.throttled = c.blocked = false;
  for (OutFrame& frame : c.writer.take_all()) {
    if (!frame.op) continue;
    const auto error = failed_ ? error_ : gone_error(rank_, c.peer, describe_send(*frame.op));
    frame.op->done({.peer = c.peer, .payload = {}, .error = error});
  }
  // A message cut short by this rank's own close (a failure has ended its receive already).
  c.reader.discard();
  std::optional<PostedRecv> recv;
  {
    std::lock_guard lock(mutex_);
    if (c.incoming) recv.swap(c.incoming->recv);
    c.incoming.reset();
  }
  if (recv) recv->done({.peer = c.peer, .payload = {}, .error = closed_error(rank_, "")});
}

// Nothing is left to write. After a farewell our side is shut, and the peer's end of file awaited.
void TcpRank::written_out(Connection& c) {
  c.blocked = false;
  if (c.farewell == Farewell::kNone || c.shut) return;
  c.shut = true;
  c.linger = std::min(c.linger, Clock::now() + kLinger);
  ::shutdown(c.socket.get(), SHUT_WR);
  if (c.eof) drop(c);
}

void TcpRank::begin_close(const std::string& reason) {
  closing_ = true;
  if (!reason.empty()) fail(closed_error(rank_, reason));
  if (failed_) return;
  std::vector<Done> ended;
  {
    std::lock_guard lock(mutex_);
    const auto end = [&](PostedRecv& recv) { ended.push_back(std::move(recv.done)); };
    table_.for_each_recv(end);
    table_.clear_recvs();
    for (auto& c : connections_) {
      // A receive under way still has its memory filled: it ends with its message, or with this rank.
      if (!c->socket) continue;
      OutFrame goodbye;
      goodbye.header = {FrameType::kGoodbye, 0, 0};
      c->farewell = Farewell::kGoodbye;
      queues_[c->peer].emplace(std::numeric_limits<int>::max(), std::move(goodbye));  // behind all sends
    }
  }
  for (Done& done : ended) done({.peer = kAnyPeer, .payload = {}, .error = closed_error(rank_, "")});
  for (auto& c : connections_) {
    if (c->socket && !c->blocked && !c->throttled) write(*c);
  }
}

std::exception_ptr TcpRank::blame(int suspect, const std::string& what) const {
  const Connection* silent = nullptr;
  for (const auto& c : connections_) {
    if (c->socket && !c->goodbye && (!silent || c->heard.load() < silent->heard.load())) silent = c.get();
  }
  if (!silent || seconds_since(silent->heard) < kSilence_s) {
    return std::make_exception_ptr(PeerError(suspect, what));
  }
  return std::make_exception_ptr(PeerError(
      silent->peer,
      fmt::format("{} has been silent for {:.0f} s: {}", silent->name, seconds_since(silent->heard), what)));
}

// A goodbye in the queue is no operation.
void TcpRank::for_each_send(const std::function<void(const Posted&)>& visit) {
  for (const auto& queue : queues_) {
    for (const auto& [priority, frame] : queue) {
      if (frame.op) visit(*frame.op);
    }
  }
  for (auto& c : connections_) c->writer.for_each_op(visit);
}

void TcpRank::for_each_receive(const std::function<void(const Posted&)>& visit) {
  for (const auto& c : connections_) {
    if (c->incoming && c->incoming->recv) visit(*c->incoming->recv);
  }
}

// This process did not run for so long: no peer is to blame for what was not heard meanwhile.
void TcpRank::forgive(Clock::duration slept) {
  for (auto& c : connections_) c->heard = std::min(c->heard.load() + slept, Clock::now());
}

// Who stops for a while (a virtual machine that moves, a process that is frozen) is waited for, and one
// rank's log says so: rank 0's, or rank 1's about rank 0. Where losses are tolerated, a rank that leaves
// waits no longer.
void TcpRank::check_silence() {
  const double patience_s = tolerant_ && closing_ ? kSilence_s : patience_s_;
  for (auto& c : connections_) {
    if (!c->socket || c->goodbye || c->eof || c->shut) continue;
    const double silence_s = seconds_since(c->heard);
    const std::string told = fmt::format("{} has been silent for {:.0f} s", c->name, silence_s);
    const bool was_silent = std::exchange(c->silent, silence_s >= kSilence_s);
    if (c->silent && !was_silent && rank_ == (c->peer == 0 ? 1 : 0)) {
      log_warn("{}; it is given up after {:.0f} s", told, patience_s_);
    }
    if (silence_s < patience_s) continue;
    const std::string need = describe_need(*c);
    const std::string meanwhile =
        need.empty() ? "" : fmt::format(" while rank {} waited for: {}", rank_, need);
    fail_peer(c->peer, std::make_exception_ptr(PeerError(c->peer, told + meanwhile)));
    if (failed_) return;
  }
}

void TcpRank::check_lingering() {
  for (auto& c : connections_) {
    if (!c->socket || c->linger == Clock::time_point::max()) continue;
    int unacknowledged = 1;
    const bool goodbye_read = c->shut && c->farewell == Farewell::kGoodbye &&
                              ::ioctl(c->socket.get(), SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0;
    if (goodbye_read || Clock::now() >= c->linger) drop(*c);
  }
}

bool TcpRank::finished() const {
  if (!closing_) return false;
  for (const auto& c : connections_) {
    if (c->socket) return false;
  }
  return true;
}

}  // namespace entrain::transport
