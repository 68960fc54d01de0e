// TcpRank's I/O thread: waiting, reading, writing.
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cmath>
#include <cstring>

#include "entrain/base/error.h"
#include "entrain/transport/tcp/tcp_rank.h"

namespace entrain::transport {
namespace {

// System calls for one connection before the others get their turn.
constexpr int kCallsPerTurn = 4;
// Frames are chosen from the queue while less than this is being written: late, so that a message of
// higher priority overtakes, but enough to send many small frames by one call.
constexpr size_t kCommit = 65536;
// A process that is stopped or hung sends none.
constexpr auto kPingInterval = std::chrono::seconds(1);

}  // namespace

void TcpRank::run() {
  pthread_setname_np(pthread_self(), "entrain-tcp");
  constexpr int kMaxEvents = 64;
  epoll_event events[kMaxEvents];
  for (int n = 0;;) {
    {
      const WakeTogether together;
      on_events({events, static_cast<size_t>(n)});
      run_tasks();
    }
    if (finished()) return;
    n = std::max(0, ::epoll_wait(epoll_.get(), events, kMaxEvents, prepare_to_sleep()));
    const std::lock_guard lock(mutex_);
    sleeping_ = false;
  }
}

void TcpRank::on_events(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) {
    if (event.data.ptr) {
      on_event(*static_cast<Connection*>(event.data.ptr), event.events);
    } else {
      eventfd_t count;
      ::eventfd_read(doorbell_->eventfd.get(), &count);
    }
  }
  read_held();
  resume_shaped();
  tick();
  check_deadlines();
  check_lingering();
}

void TcpRank::run_tasks() {
  const auto [tasks, dirty] = take_work();
  for (const auto& task : tasks) task();
  for (const int peer : dirty) {
    Connection& c = *connections_[peer];
    if (c.socket && !c.blocked && !c.throttled) write(c);
  }
}

// Milliseconds that epoll may wait.
int TcpRank::prepare_to_sleep() {
  auto until = next_tick_;
  const auto now = Clock::now();
  if (reading_paused_) until = std::min(until, ingress_.ready_at(now));
  for (const auto& c : connections_) {
    if (!c->socket) continue;
    if (c->throttled) until = std::min(until, egress_.ready_at(now));
    until = std::min(until, c->linger);
    // Whether a goodbye has been acknowledged can only be asked.
    if (c->shut && c->farewell == Farewell::kGoodbye)
      until = std::min(until, now + std::chrono::milliseconds(5));
  }
  std::lock_guard lock(mutex_);
  if (!tasks_.empty() || !dirty_.empty() || (holds_received_ && !reading_paused_)) return 0;
  sleeping_ = true;
  until = std::min(until, next_check_);
  if (until == Clock::time_point::max()) return -1;
  const double ms = std::chrono::duration<double, std::milli>(until - now).count();
  return static_cast<int>(std::ceil(std::clamp(ms, 0.0, 60'000.0)));
}

void TcpRank::on_event(Connection& c, uint32_t events) {
  if (!c.socket) return;  // dropped by an earlier event of the same batch
  const bool broken = events & (EPOLLERR | EPOLLHUP);
  if (c.eof && broken) return drop(c);
  if ((events & EPOLLIN) || broken) read(c);
  if (c.socket && (events & EPOLLOUT)) {
    c.blocked = false;
    if (!c.throttled) write(c);
    if (c.socket && !c.blocked) update_events(c);
  }
}

void TcpRank::update_events(Connection& c) {
  const bool reads = !c.eof && !(reading_paused_ && !failed_);
  const uint32_t wanted = (reads ? EPOLLIN : 0u) | (c.blocked ? EPOLLOUT : 0u);
  if (wanted == c.events) return;
  c.events = wanted;
  epoll_event event{.events = wanted, .data = {.ptr = &c}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, c.socket.get(), &event);
}

FrameReader::Outcome TcpRank::read_once(Connection& c) {
  const size_t limit = failed_ ? SIZE_MAX : ingress_.allowance(Clock::now());
  const auto outcome = c.reader.read(*c.channel, std::max<size_t>(limit, 1), c);
  ingress_.use(outcome.bytes);
  if (outcome.bytes > 0) c.heard = Clock::now();
  holds_received_ |= c.channel->holds_received();
  return outcome;
}

void TcpRank::read(Connection& c) {
  for (int i = 0; i < kCallsPerTurn && c.socket; ++i) {
    if (!failed_ && ingress_.allowance(Clock::now()) == 0) {
      reading_paused_ = true;
      for (auto& each : connections_) {
        if (each->socket) update_events(*each);
      }
      return;
    }
    const auto outcome = read_once(c);
    switch (outcome.status) {
      case FrameReader::Status::kEnd:
        return on_end(c, "closed the connection");
      case FrameReader::Status::kFailed:
        return on_end(c, outcome.error == EBADMSG
                             ? "sent bytes that were changed on their way"
                             : fmt::format("is cut off ({})", std::strerror(outcome.error)));
      case FrameReader::Status::kNonsense:
        return on_end(c, "broke the protocol");
      case FrameReader::Status::kOpen:
        if (!outcome.more) return;
    }
  }
}

// What channels have taken from their sockets and nobody has read: epoll reports a socket, not its channel.
void TcpRank::read_held() {
  if (!holds_received_ || reading_paused_) return;
  holds_received_ = false;
  for (auto& c : connections_) {
    if (!c->socket || c->eof) continue;
    if (c->channel->holds_received()) read(*c);
    holds_received_ |= c->socket && c->channel->holds_received();
  }
}

// Says where the payload of a frame goes.
std::vector<Bytes> TcpRank::on_header(Connection& c, const FrameHeader& header) {
  c.header = header;
  if (header.type != FrameType::kData) {
    c.control.resize(header.length);
    return {std::as_writable_bytes(std::span(c.control))};
  }
  auto incoming = std::make_shared<Incoming>();
  incoming->peer = c.peer;
  std::exception_ptr error;
  try {
    std::lock_guard lock(mutex_);
    incoming->recv = table_.arrive(c.peer, header.tag, [&] { return incoming; });
    c.incoming = incoming;
    incoming->direct = incoming->recv && !incoming->recv->into.empty();
    if (!incoming->direct) {
      incoming->payload = Payload(pool_, header.length);
      return {incoming->payload.bytes()};
    }
    if (total_size(incoming->recv->into) == header.length) return incoming->recv->into;
    error = size_error(rank_, *incoming->recv, c.peer, header.length);
  } catch (const std::bad_alloc&) {
    error = std::make_exception_ptr(
        PeerError(c.peer, fmt::format("{} sent a message of {} bytes, which rank {} cannot hold", c.name,
                                      header.length, rank_)));
  }
  fail_peer(c.peer, error);
  return {};
}

void TcpRank::on_frame(Connection& c) {
  switch (c.header.type) {
    case FrameType::kGoodbye:
      c.goodbye = true;
      return;
    case FrameType::kPing:
      return;
    case FrameType::kAbort:
      // Where losses are tolerated, whomever that peer blames: it is the one that ends.
      if (tolerant_) {
        return lose(c.peer, std::make_exception_ptr(
                                PeerError(c.peer, fmt::format("{} ended: {}", c.name, c.control))));
      }
      return fail(std::make_exception_ptr(PeerError(static_cast<int>(c.header.tag), c.control)));
    case FrameType::kData:
      break;
  }
  complete(std::exchange(c.incoming, nullptr));
  if (c.header.length >= kWorthWaking) WakeTogether::now();
}

void TcpRank::refill(Connection& c) {
  if (c.writer.bytes_left() >= kCommit) return;
  std::lock_guard lock(mutex_);
  auto& queue = queues_[c.peer];
  while (!queue.empty() && c.writer.bytes_left() < kCommit) {
    c.writer.push(std::move(queue.begin()->second));
    queue.erase(queue.begin());
  }
}

void TcpRank::write(Connection& c) {
  std::vector<OutFrame> finished_frames;
  for (int i = 0; i < kCallsPerTurn; ++i) {
    refill(c);
    if (c.writer.empty() && !c.channel->holds_unsent()) return written_out(c);
    const size_t limit = failed_ ? SIZE_MAX : egress_.allowance(Clock::now());
    c.throttled = limit == 0;
    if (c.throttled) return;
    const auto outcome = c.writer.write(*c.channel, limit, finished_frames);
    egress_.use(outcome.bytes);
    for (OutFrame& frame : finished_frames) finish(frame);
    finished_frames.clear();
    if (!c.socket) return;  // a callback's doing is only queued, but stay safe
    if (outcome.error) return on_write_error(c, outcome.error);
    if (outcome.blocked) break;
  }
  c.blocked = true;  // or its turn is over: epoll calls again at once
  update_events(c);
}

void TcpRank::finish(OutFrame& frame) {
  if (!frame.op) return;
  bytes_sent_ += frame.header.length;
  frame.op->done({.peer = frame.op->peer, .payload = {}, .error = error_});
}

// Once per second, behind what has come.
void TcpRank::tick() {
  const auto now = Clock::now();
  if (now < next_tick_) return;
  if (now - next_tick_ > kPingInterval) forgive(now - next_tick_);
  next_tick_ = now + kPingInterval;
  if (failed_) return;
  if (!closing_) send_pings();
  check_silence();
}

// Where data waits to be written, that will be heard.
void TcpRank::send_pings() {
  for (auto& c : connections_) {
    if (!c->socket || c->eof || !c->writer.empty()) continue;
    OutFrame ping;
    ping.header = {FrameType::kPing, 0, 0};
    c->writer.push(std::move(ping));
    if (!c->blocked && !c->throttled) write(*c);
  }
}

// Who comes first takes most of what may pass (epoll, too, reports first who asked first): in turn.
void TcpRank::resume_shaped() {
  const auto now = Clock::now();
  const size_t count = connections_.size();
  if (reading_paused_ && (failed_ || ingress_.allowance(now) > 0)) {
    reading_paused_ = false;
    ++turn_;
    for (size_t i = 0; i < count; ++i) {
      Connection& c = *connections_[(turn_ + i) % count];
      if (c.socket) update_events(c);
    }
  }
  if (egress_.allowance(now) == 0 && !failed_) return;
  ++turn_;
  for (size_t i = 0; i < count; ++i) {
    Connection& c = *connections_[(turn_ + i) % count];
    if (!c.socket || !c.throttled) continue;
    c.throttled = false;
    if (!c.blocked) write(c);
  }
}

}  // namespace entrain::transport
