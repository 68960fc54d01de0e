#include "entrain/rendezvous/server.h"

#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/net/handshake.h"
#include "entrain/rendezvous/wire.h"

namespace entrain::rendezvous {
namespace {

// How often the log says who is missing.
constexpr double kReportSeconds = 10;

// A rank that proved the token; it waits once its registration is complete.
struct Visitor {
  net::Fd socket;
  std::string registration;  // so far
  bool registered() const { return registration.size() == kEntrySize; }
};

// Its client has given up and tries again, or has died.
bool has_hung_up(const net::Fd& socket) {
  char byte;
  const ssize_t n = ::recv(socket.get(), &byte, 1, MSG_PEEK);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

net::Fd listen_for_ranks(const Server::Options& options) {
  try {
    return net::listen_on({options.bind_address, options.port});
  } catch (const Error& e) {
    throw Error(fmt::format("rendezvous: {}", e.what()));
  }
}

}  // namespace

class Server::Impl {
 public:
  explicit Impl(const Options& options)
      : world_(options.world),
        handshakes_(listen_for_ranks(options), net::kRendezvousRank, options.world, options.token),
        wakeup_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    endpoint_ = net::local_endpoint(handshakes_.listener()).text();
    thread_ = std::thread([this] { run(); });
  }
  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake();
    thread_.join();
  }

  const std::string& endpoint() const { return endpoint_; }

  void abort(const std::string& reason) {
    {
      std::lock_guard lock(mutex_);
      if (!abort_) abort_ = reason;
    }
    wake();
  }

 private:
  void wake() { ::eventfd_write(wakeup_.get(), 1); }

  void run() {
    while (true) {
      std::optional<std::string> aborted;
      {
        std::lock_guard lock(mutex_);
        if (stopping_) return;
        aborted = abort_;
      }
      if (aborted) fail_all(net::kRendezvousRank, *aborted);
      wait();
      handshakes_.serve(
          [this](net::Fd socket, int rank, int world) { enter(std::move(socket), rank, world); });
      read_visitors();
      see_off_leavers();
      report();
    }
  }

  void wait() {
    std::vector<pollfd> entries{{wakeup_.get(), POLLIN, 0}};
    const int wait_ms = handshakes_.watch(entries);
    for (const auto& [rank, visitor] : visitors_) entries.push_back({visitor.socket.get(), POLLIN, 0});
    for (const net::Fd& socket : leaving_) entries.push_back({socket.get(), POLLIN, 0});
    const int report_ms = complete_ || failure_ ? wait_ms : next_report_.left_ms();
    ::poll(entries.data(), entries.size(), std::min(wait_ms, report_ms));
    eventfd_t count;
    ::eventfd_read(wakeup_.get(), &count);
  }

  void enter(net::Fd socket, int rank, int world) {
    if (world != world_) {
      return fail_all(
          rank, fmt::format("rank {} was started for a world of {} ranks, but the rendezvous counts {}", rank,
                            world, world_));
    }
    if (rank < 0 || rank >= world_) {
      return fail_all(rank, fmt::format("rank {} came, but ranks are 0..{}", rank, world_ - 1));
    }
    if (failure_) {
      return dismiss(std::move(socket), culprit_, *failure_);
    }
    if (complete_) {
      return dismiss(std::move(socket), rank,
                     fmt::format("rank {} came twice: the job has already started", rank));
    }
    if (visitors_.contains(rank) && !has_hung_up(visitors_[rank].socket)) {
      const std::string reason = fmt::format("two processes came as rank {}: {} and {}", rank,
                                             net::remote_endpoint(visitors_[rank].socket).text(),
                                             net::remote_endpoint(socket).text());
      dismiss(std::move(socket), rank, reason);
      return fail_all(rank, reason);
    }
    visitors_[rank] = {std::move(socket), ""};
  }

  // Registrations come in; a rank that hangs up before the start has not come.
  void read_visitors() {
    bool changed = false;
    for (auto it = visitors_.begin(); it != visitors_.end();) {
      Visitor& visitor = it->second;
      char buffer[kEntrySize];
      const size_t room = std::max<size_t>(kEntrySize - visitor.registration.size(), 1);
      const ssize_t n = ::recv(visitor.socket.get(), buffer, room, 0);
      const bool waits = n < 0 && (errno == EAGAIN || errno == EINTR);
      if (!waits && (n <= 0 || visitor.registered())) {
        it = visitors_.erase(it);
        changed = true;
        continue;
      }
      if (n > 0) {
        visitor.registration.append(buffer, static_cast<size_t>(n));
        changed |= visitor.registered();
      }
      ++it;
    }
    if (changed) announce();
  }

  void announce() {
    const std::vector<int> missing = missing_ranks();
    if (missing.empty()) {
      complete_ = true;
      std::string table;
      for (const auto& [rank, visitor] : visitors_) table += visitor.registration;
      for (const auto& [rank, visitor] : visitors_) notify(visitor.socket, Notice::kTable, 0, table);
      visitors_.clear();
      return;
    }
    const std::string text = describe(missing);
    for (const auto& [rank, visitor] : visitors_) {
      if (visitor.registered()) notify(visitor.socket, Notice::kWaiting, missing.front(), text);
    }
  }

  std::vector<int> missing_ranks() const {
    std::vector<int> missing;
    for (int rank = 0; rank < world_; ++rank) {
      const auto it = visitors_.find(rank);
      if (it == visitors_.end() || !it->second.registered()) missing.push_back(rank);
    }
    return missing;
  }

  // "142 of 256 ranks are here; missing: 7, 19 and 112 more"
  std::string describe(const std::vector<int>& missing) const {
    constexpr size_t kNamed = 20;
    const size_t named = std::min(missing.size(), kNamed);
    std::string text =
        fmt::format("{} of {} ranks are here; missing: {}", world_ - static_cast<int>(missing.size()), world_,
                    fmt::join(missing.begin(), missing.begin() + named, ", "));
    if (missing.size() > named) text += fmt::format(" and {} more", missing.size() - named);
    return text;
  }

  void report() {
    if (complete_ || failure_ || !next_report_.passed()) return;
    log_info("{}", describe(missing_ranks()));
    next_report_ = Deadline::after(kReportSeconds);
  }

  void fail_all(int culprit, const std::string& reason) {
    if (failure_ || complete_) return;
    failure_ = reason.substr(0, kMaxReason);
    culprit_ = culprit;
    for (auto& [rank, visitor] : visitors_) dismiss(std::move(visitor.socket), culprit_, *failure_);
    visitors_.clear();
  }

  // Closing at once could reset the connection before the reason is read: the client closes first.
  void dismiss(net::Fd socket, int culprit, const std::string& reason) {
    notify(socket, Notice::kFailed, culprit, reason);
    ::shutdown(socket.get(), SHUT_WR);
    constexpr size_t kMaxLeaving = 256;
    if (leaving_.size() == kMaxLeaving) leaving_.pop_front();
    leaving_.push_back(std::move(socket));
  }

  void see_off_leavers() {
    std::erase_if(leaving_, [](const net::Fd& socket) {
      char ignored[256];
      const ssize_t n = ::recv(socket.get(), ignored, sizeof ignored, 0);
      return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    });
  }

  // Notices are small and few: they fit the socket's buffer, and a rank for which they do not is lost.
  static void notify(const net::Fd& socket, Notice kind, int rank, const std::string& body) {
    std::string text;
    net::put_u32(text, static_cast<uint32_t>(kind));
    net::put_u32(text, static_cast<uint32_t>(rank));
    net::put_u32(text, static_cast<uint32_t>(body.size()));
    std::string error;
    net::write_fully(socket, (text + body).data(), text.size() + body.size(), Deadline::after(0.5), error);
  }

  const int world_;
  net::HandshakeListener handshakes_;
  net::Fd wakeup_;
  std::string endpoint_;

  // Only the serving thread's.
  std::map<int, Visitor> visitors_;
  std::deque<net::Fd> leaving_;
  std::optional<std::string> failure_;
  int culprit_ = net::kRendezvousRank;
  bool complete_ = false;
  Deadline next_report_ = Deadline::after(kReportSeconds);

  std::mutex mutex_;  // guards the two below
  std::optional<std::string> abort_;
  bool stopping_ = false;

  std::thread thread_;
};

Server::Server(const Options& options) {
  if (options.world < 1) bad_input("the world is {}: it must be at least 1 rank", options.world);
  if (options.token.empty()) bad_input("the job token is empty: ranks prove themselves by it");
  impl_ = std::make_unique<Impl>(options);
}
Server::~Server() = default;

std::string Server::endpoint() const { return impl_->endpoint(); }
void Server::abort(const std::string& reason) { impl_->abort(reason); }

}  // namespace entrain::rendezvous
