// MpiRank's progress thread: polling, sending, receiving.
#include <cstring>

#include "entrain/base/error.h"
#include "entrain/base/wake.h"
#include "entrain/transport/mpi/mpi_rank.h"

namespace entrain::transport {
namespace {

constexpr int kHeadTag = 1, kBodyTag = 2;
// Payloads up to this go with their head: one message, which Open MPI's shared memory takes at once.
constexpr size_t kSmall = 3968;
// Messages are chosen from the queue while less than this is under way: late, so that one of higher priority
// overtakes, but enough to keep a link busy.
constexpr size_t kMpiCommit = size_t{1} << 20;
// A process that is stopped or hung sends none.
constexpr auto kMpiPingInterval = std::chrono::seconds(1);
// Polls without an event before the thread sleeps, and how long at most, with messages under way and without.
constexpr int kEagerRounds = 20;
constexpr int kBusySleep_us = 50, kIdleSleep_us = 500;

}  // namespace

void MpiRank::run(std::promise<void>& started) {
  try {
    start_mpi(size());
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank_) await_head(peer);
    }
    started.set_value();
  } catch (...) {
    return started.set_exception(std::current_exception());
  }
  while (!finished()) {
    bool worked = true;
    try {
      worked = progress();
    } catch (const std::exception& e) {  // MPI reports an error, or there is no memory for a message
      requests_->abandon();
      fail(std::make_exception_ptr(
          PeerError(kAnyPeer, fmt::format("rank {} cannot go on over MPI: {}", rank_, e.what()))));
      abandon_mpi();
    }
    rest(worked);
  }
  finish_mpi();
}

void MpiRank::start_mpi(int world) {
  const auto [mpi_rank, mpi_world] = requests_->start();
  if (mpi_rank == rank_ && mpi_world == world) return;
  requests_->finish();
  bad_input(
      "the launcher started rank {} of {}, Open MPI says {} of {}: ENTRAIN_TRANSPORT=mpi needs Open MPI's "
      "own mpirun, or srun with PMIx",
      rank_, world, mpi_rank, mpi_world);
}

// One round. False when there was nothing to do.
bool MpiRank::progress() {
  const WakeTogether together;
  bool worked = run_tasks();
  worked |= requests_->poll();
  for (int peer = 0; peer < size(); ++peer) {
    Peer& p = *peers_[peer];
    if (p.goodbye_heard && !p.ended && p.in.empty()) on_goodbye(peer);
  }
  send_pings();
  check_deadlines();
  if (closing_) say_goodbyes();
  check_lingering();
  return worked;
}

bool MpiRank::run_tasks() {
  const auto [tasks, dirty] = take_work();
  for (const auto& task : tasks) task();
  for (const int peer : dirty) pump(peer);
  return !tasks.empty() || !dirty.empty();
}

void MpiRank::rest(bool worked) {
  idle_rounds_ = worked ? 0 : idle_rounds_ + 1;
  if (worked) return;
  if (idle_rounds_ < kEagerRounds) return std::this_thread::yield();
  const bool busy =
      std::ranges::any_of(peers_, [](const auto& p) { return !p->out.empty() || !p->in.empty(); });
  const int sleep_us =
      std::min(10 << std::min(idle_rounds_ - kEagerRounds, 10), busy ? kBusySleep_us : kIdleSleep_us);
  std::unique_lock lock(mutex_);
  if (!tasks_.empty() || !dirty_.empty()) return;
  sleeping_ = true;
  if (wakeup_.wait_for(lock, std::chrono::microseconds(sleep_us), [&] { return !sleeping_; }))
    idle_rounds_ = 0;
  sleeping_ = false;
}

// Gives MPI what waits for this peer, as far as it should have it now.
void MpiRank::pump(int peer) {
  Peer& p = *peers_[peer];
  while (p.out_bytes < kMpiCommit) {
    std::shared_ptr<Outgoing> out;
    {
      std::lock_guard lock(mutex_);
      auto& queue = queues_[peer];
      if (queue.empty()) return;
      out = std::move(queue.begin()->second);
      queue.erase(queue.begin());
    }
    start_send(out);
  }
}

void MpiRank::start_send(const std::shared_ptr<Outgoing>& out) {
  Peer& p = *peers_[out->peer];
  const size_t length = out->header.length;
  const bool small = length <= kSmall;
  out->head.resize(sizeof(Header) + (small ? length : 0));
  std::memcpy(out->head.data(), &out->header, sizeof(Header));
  if (small) copy_spans(out->data, {Bytes(out->head).subspan(sizeof(Header))});
  std::vector<std::vector<ConstBytes>> body;
  if (!small) {
    if (tolerant_) {
      out->copy = Payload(pool_, length);
      copy_spans(out->data, {out->copy.bytes()});
      out->data = {out->copy.bytes()};
    }
    body = in_parts(out->data);
  }
  p.out.push_back(out);
  p.out_bytes += sizeof(Header) + length;
  out->parts = 1 + static_cast<int>(body.size());
  requests_->send(out->peer, kHeadTag, {out->head}, [this, out] { on_sent(out); });
  for (const auto& part : body) requests_->send(out->peer, kBodyTag, part, [this, out] { on_sent(out); });
  if (!small || !out->op) return;
  // It is all in our own memory: the sender has his back at once.
  bytes_sent_ += length;
  const Done done = std::move(out->op->done);
  out->op.reset();
  done({.peer = out->peer, .payload = {}, .error = error_});
}

void MpiRank::send_control(int peer, Header header, const std::string& text) {
  auto out = std::make_shared<Outgoing>();
  out->peer = peer;
  const std::string_view kept = std::string_view(text).substr(0, kSmall);
  header.length = kept.size();
  out->header = header;
  out->data = {as_bytes(kept)};
  start_send(out);
  out->data.clear();
}

void MpiRank::on_sent(const std::shared_ptr<Outgoing>& out) {
  if (--out->parts > 0) return;
  Peer& p = *peers_[out->peer];
  std::erase(p.out, out);
  p.out_bytes -= sizeof(Header) + out->header.length;
  if (out->op) {
    bytes_sent_ += out->header.length;
    out->op->done({.peer = out->peer, .payload = {}, .error = error_});
  }
  pump(out->peer);
}

void MpiRank::await_head(int peer) {
  Peer& p = *peers_[peer];
  p.inbox.resize(sizeof(Header) + kSmall);
  requests_->recv(peer, kHeadTag, {p.inbox}, [this, peer] { on_head(peer); });
}

void MpiRank::on_head(int peer) {
  Peer& p = *peers_[peer];
  p.heard = Clock::now();
  Header header;
  std::memcpy(&header, p.inbox.data(), sizeof header);
  const ConstBytes payload = ConstBytes(p.inbox).subspan(sizeof header, std::min(header.length, kSmall));
  switch (header.type) {
    case Type::kGoodbye:
      p.goodbye_heard = true;  // nothing follows
      return;
    case Type::kAbort:
      on_abort(peer, header, std::string(as_text(payload)));
      break;
    case Type::kPing:
      break;
    case Type::kData:
      on_data(peer, header, payload);
      break;
  }
  await_head(peer);
}

// Says where the payload of a message goes. A body is always received, if only to let its sender go on.
void MpiRank::on_data(int peer, const Header& header, ConstBytes payload) {
  auto incoming = std::make_shared<Incoming>();
  incoming->peer = peer;
  const bool unwanted = failed_ || peers_[peer]->lost;
  std::exception_ptr error;
  if (!unwanted) {
    std::lock_guard lock(mutex_);
    incoming->recv = table_.arrive(peer, header.tag, [&] { return incoming; });
    const bool into = incoming->recv && !incoming->recv->into.empty();
    if (into && total_size(incoming->recv->into) != header.length) {
      error = size_error(rank_, *incoming->recv, peer, header.length);
    } else {
      incoming->direct = into && !tolerant_;
    }
  }
  if (!incoming->direct) incoming->payload = Payload(pool_, header.length);
  const std::vector<Bytes> target =
      incoming->direct ? incoming->recv->into : std::vector<Bytes>{incoming->payload.bytes()};
  if (header.length > kSmall) {
    receive_body(peer, incoming, target);
    if (error) fail_peer(peer, error);
    return;
  }
  copy_spans({payload}, target);
  if (!unwanted) on_body(incoming);
}

void MpiRank::receive_body(int peer, const std::shared_ptr<Incoming>& incoming,
                           const std::vector<Bytes>& into) {
  peers_[peer]->in.push_back(incoming);
  const auto parts = in_parts(into);
  const auto missing = std::make_shared<size_t>(parts.size());
  for (const auto& part : parts) {
    requests_->recv(peer, kBodyTag, part, [this, incoming, missing] {
      peers_[incoming->peer]->heard = Clock::now();  // a long body is no silence
      if (--*missing == 0) on_body(incoming);
    });
  }
}

// A message is complete.
void MpiRank::on_body(const std::shared_ptr<Incoming>& incoming) {
  Peer& p = *peers_[incoming->peer];
  p.heard = Clock::now();
  std::erase(p.in, incoming);
  complete(incoming);
}

// Where data waits to be sent, that will be heard.
void MpiRank::send_pings() {
  const auto now = Clock::now();
  if (now < next_ping_) return;
  next_ping_ = now + kMpiPingInterval;
  if (failed_ || closing_) return;
  for (int peer = 0; peer < size(); ++peer) {
    const Peer& p = *peers_[peer];
    if (peer != rank_ && p.out.empty() && !p.lost) send_control(peer, {.type = Type::kPing}, "");
  }
}

}  // namespace entrain::transport
