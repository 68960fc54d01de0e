// TcpRank as its users see it: posting, from any thread, and closing.
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <limits>

#include "entrain/base/error.h"
#include "entrain/transport/tcp/tcp_rank.h"

namespace entrain::transport {

TcpRank::TcpRank(int rank, std::vector<Peer> peers, double shape_gbit)
    : rank_(rank),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wakeup_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      queues_(peers.size()),
      gone_(peers.size()),
      lost_(peers.size()),  // NOLINT(bugprone-throw-keyword-missing): exceptions kept, not thrown
      ingress_(shape_gbit),
      egress_(shape_gbit) {
  if (!epoll_ || !wakeup_) fail_errno("cannot create an epoll instance");
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wakeup_.get(), &event);
  for (size_t i = 0; i < peers.size(); ++i) {
    auto c = std::make_unique<Connection>(*this, static_cast<int>(i));
    c->socket = std::move(peers[i].socket);
    c->name = fmt::format("rank {} ({})", i, peers[i].endpoint.text());
    if (c->socket) {
      c->events = EPOLLIN;
      event = {.events = EPOLLIN, .data = {.ptr = c.get()}};
      if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, c->socket.get(), &event) != 0)
        fail_errno("cannot watch a socket");
    }
    connections_.push_back(std::move(c));
  }
  thread_ = std::thread([this] { run(); });
  io_thread_ = thread_.get_id();
}

TcpRank::~TcpRank() {
  // A rank that is unwinding has not finished its work: its peers must not take it for an orderly end.
  TcpRank::close(std::uncaught_exceptions() > 0 ? "it failed" : "");
}

void TcpRank::post_send(int peer, Tag tag, std::vector<ConstBytes> data, SendOptions options, Done done) {
  check_peer(*this, peer, false);
  OutFrame frame;
  frame.header = {FrameType::kData, tag, total_size(data)};
  frame.data = std::move(data);
  frame.op = Posted{peer, tag, options.deadline, Clock::now(), options.what, std::move(done)};
  std::unique_lock lock(mutex_);
  if (refuse(lock, frame.op->done)) return;
  watch(options.deadline);
  if (gone_[peer]) {
    const auto error = why_gone(peer, describe_send(*frame.op));
    if (tolerant_) {
      add_task(lock, [peer, error, done = std::move(frame.op->done)] {
        done({.peer = peer, .payload = {}, .error = error});
      });
      return wake(lock);
    }
    add_task(lock, [this, error] { fail(error); });
  }
  queues_[peer].emplace(options.priority, std::move(frame));
  dirty_.push_back(peer);
  wake(lock);
}

void TcpRank::post_recv(int peer, Tag tag, std::vector<Bytes> into, RecvOptions options, Done done) {
  check_peer(*this, peer, true);
  PostedRecv recv;
  static_cast<Posted&>(recv) = {peer, tag, options.deadline, Clock::now(), options.what, std::move(done)};
  recv.into = std::move(into);
  std::unique_lock lock(mutex_);
  if (refuse(lock, recv.done)) return;
  const auto gone = is_gone(peer) ? gone_error(rank_, peer, describe_recv(recv)) : nullptr;
  // A receive gives the I/O thread nothing to do, unless it sleeps beyond this deadline.
  const bool urgent = options.deadline.when() < next_check_;
  watch(options.deadline);
  if (const auto complete = match(recv)) {
    add_task(lock, [this, recv = std::move(recv), complete] { deliver(recv, *complete); });
    return wake(lock);
  }
  if (gone) {
    add_task(lock, [this, gone] { tolerant_ ? end_hopeless() : fail(gone); });
  }
  if (gone || urgent) wake(lock);
}

// Finds the message of a receive: returned when it is complete (`recv` is then untouched), else `recv` waits
// for it. With the lock held.
std::shared_ptr<TcpRank::Incoming> TcpRank::match(PostedRecv& recv) {
  auto arrival = table_.post(recv);
  if (!arrival) return nullptr;
  if (arrival->second->complete) return std::move(arrival->second);
  arrival->second->recv = std::move(recv);
  return nullptr;
}

void TcpRank::close(const std::string& reason) {
  {
    std::unique_lock lock(mutex_);
    if (!close_requested_) {
      close_requested_ = true;
      add_task(lock, [this, reason] { begin_close(reason); });
      wake(lock);
    }
  }
  if (std::this_thread::get_id() == io_thread_) return;  // from a callback: requested, not awaited
  std::lock_guard join(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void TcpRank::give_up(int suspect, const std::string& what) {
  std::unique_lock lock(mutex_);
  if (close_requested_ || error_) return;
  add_task(lock, [this, suspect, what] { fail_peer(suspect, blame(suspect, what)); });
  wake(lock);
}

// Ends an operation that comes after the failure or the close.
bool TcpRank::refuse(std::unique_lock<std::mutex>& lock, Done& done) {
  if (!close_requested_ && !error_) return false;
  Result result;
  result.error = error_ ? error_ : closed_error(rank_, "");
  if (close_requested_) {  // the I/O thread may be over
    lock.unlock();
    done(std::move(result));
  } else {
    add_task(lock, [done = std::move(done), error = result.error] {
      done({.peer = kAnyPeer, .payload = {}, .error = error});
    });
    wake(lock);
  }
  return true;
}

void TcpRank::add_task(std::unique_lock<std::mutex>&, std::function<void()> task) {
  tasks_.push_back(std::move(task));
}

// Unlocks. One write wakes the I/O thread; while it is awake it looks at the queues anyway.
void TcpRank::wake(std::unique_lock<std::mutex>& lock) {
  const bool asleep = std::exchange(sleeping_, false);
  lock.unlock();
  if (asleep) ::eventfd_write(wakeup_.get(), 1);
}

bool TcpRank::is_gone(int peer) const {
  if (peer != kAnyPeer) return gone_[peer];
  for (int other = 0; other < size(); ++other) {
    if (other != rank_ && !gone_[other]) return false;
  }
  return true;
}

std::exception_ptr TcpRank::why_gone(int peer, const std::string& description) const {
  return peer != kAnyPeer && lost_[peer] ? lost_[peer] : gone_error(rank_, peer, description);
}

double TcpRank::silence_s(int peer) const {
  {
    std::lock_guard lock(mutex_);
    if (error_ || gone_[peer]) return std::numeric_limits<double>::infinity();
  }
  return seconds_since(connections_[peer]->heard.load());
}

}  // namespace entrain::transport
