// TcpRank as its users see it: made, posting from any thread, unmade.
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "entrain/base/error.h"
#include "entrain/transport/tcp/tcp_rank.h"

namespace entrain::transport {
namespace {

constexpr double kLeastPatience_s = 5;  // pings come every second, more or less

}  // namespace

TcpRank::TcpRank(int rank, std::vector<Peer> peers, double shape_gbit, double timeout_s)
    : ThreadedRank(rank, static_cast<int>(peers.size()), Wake::kForWork),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      queues_(peers.size()),
      ingress_(shape_gbit),
      egress_(shape_gbit),
      patience_s_(std::max(timeout_s, kLeastPatience_s)) {
  doorbell_->eventfd = net::Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll_ || !doorbell_->eventfd) fail_errno("cannot create an epoll instance");
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, doorbell_->eventfd.get(), &event);
  for (size_t i = 0; i < peers.size(); ++i) {
    auto c = std::make_unique<Connection>(*this, static_cast<int>(i));
    c->socket = std::move(peers[i].socket);
    c->channel = std::move(peers[i].channel);
    if (!c->channel) c->channel = std::make_unique<net::PlainChannel>(c->socket);
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
  own_thread_ = thread_.get_id();
}

TcpRank::~TcpRank() {
  // A rank that is unwinding has not finished its work: its peers must not take it for an orderly end.
  close(std::uncaught_exceptions() > 0 ? "it failed" : "");
}

void TcpRank::post_send(int peer, Tag tag, std::vector<ConstBytes> data, SendOptions options, Done done) {
  check_peer(*this, peer, false);
  const bool large = total_size(data) >= kWorthWaking;
  OutFrame frame;
  frame.header = {FrameType::kData, tag, total_size(data)};
  frame.data = std::move(data);
  frame.op = Posted{peer, tag, options.deadline, Clock::now(), options.what, std::move(done)};
  std::unique_lock lock(mutex_);
  if (refuse(lock, frame.op->done)) return;
  watch(options.deadline);
  if (gone_[peer] && end_send(lock, *frame.op)) return;
  queues_[peer].emplace(options.priority, std::move(frame));
  dirty_.push_back(peer);
  wake(lock);
  if (large) WakeTogether::now();
}

void TcpRank::notify() { entrain::wake(doorbell_); }

void TcpRank::Doorbell::wake() { ::eventfd_write(eventfd.get(), 1); }

}  // namespace entrain::transport
