#include "launcher/relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "entrain/base/error.h"

namespace entrain::app {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);      // longer than ssh tries to connect
constexpr auto kLinger = std::chrono::milliseconds(500);  // for what an ended rank's own children still write

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd item{fd, POLLOUT, 0};
      ::poll(&item, 1, -1);
    } else if (errno != EINTR) {
      return;  // nobody reads it
    }
  }
}

bool same_file(int a, int b) {
  struct stat first {
  }, second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

void copy_window_size(int from, int to) {
  winsize size{};
  if (::ioctl(from, TIOCGWINSZ, &size) == 0) ::ioctl(to, TIOCSWINSZ, &size);
}

}  // namespace

Relay::Relay(std::vector<Transcript::Rank> ranks)
    : given_(ranks.size()),
      wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      transcript_(ranks, write_all, ::isatty(STDERR_FILENO) == 1),
      open_(ranks.size(), 0) {
  if (wakeup_.get() < 0) fail_errno("eventfd");
}

Relay::~Relay() { stop(); }

int Relay::open_pipe(int rank, Transcript::Stream stream) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail_errno("pipe2");
  sources_.push_back({rank, stream, OwnedFd(ends[0])});
  ++open_[rank];
  given_[rank].emplace_back(ends[1]);
  return ends[1];
}

int Relay::open_terminal(int rank) {
  OwnedFd ours(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  char name[64];
  if (ours.get() < 0 || ::grantpt(ours.get()) != 0 || ::unlockpt(ours.get()) != 0 ||
      ::ptsname_r(ours.get(), name, sizeof name) != 0) {
    return -1;
  }
  OwnedFd theirs(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios settings{};
  if (theirs.get() < 0 || ::tcgetattr(theirs.get(), &settings) != 0) return -1;
  ::cfmakeraw(&settings);  // the real terminal ends lines
  ::tcsetattr(theirs.get(), TCSANOW, &settings);
  copy_window_size(STDERR_FILENO, ours.get());
  sources_.push_back({rank, Transcript::Stream::kErrors, std::move(ours), true});
  ++open_[rank];
  const int fd = theirs.get();
  given_[rank].push_back(std::move(theirs));
  return fd;
}

void Relay::attach(int rank, ProcessOptions& process) {
  using Output = ProcessOptions::Output;
  using Stream = Transcript::Stream;
  const bool elsewhere = process.signals_by_input;
  process.errors = Output::kTo;
  if (elsewhere) {
    process.output = Output::kTo;
    process.output_fd = open_pipe(rank, Stream::kOutput);
    process.errors_fd = open_pipe(rank, Stream::kErrors);
    return;
  }
  process.errors_fd = rank == 0 && ::isatty(STDERR_FILENO) == 1 ? open_terminal(rank) : -1;
  if (process.errors_fd < 0) process.errors_fd = open_pipe(rank, Stream::kErrors);
  // Where both go to the same place they stay in order.
  if (rank == 0 && !same_file(STDOUT_FILENO, STDERR_FILENO)) return;
  process.output = Output::kTo;
  process.output_fd = process.errors_fd;
}

void Relay::start() {
  thread_ = std::thread([this] { run(); });
}

void Relay::started(int rank) { given_[rank].clear(); }

void Relay::wait_until_reached(int rank) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPatience, [&] { return !transcript_.unreached(rank) || open_[rank] == 0; });
}

bool Relay::read_some(Source& source) {
  char buffer[1 << 14];
  const ssize_t n = ::read(source.fd.get(), buffer, sizeof buffer);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  const std::lock_guard lock(mutex_);
  if (n > 0) {
    if (source.terminal) copy_window_size(STDERR_FILENO, source.fd.get());
    transcript_.add(source.rank, source.stream, {buffer, static_cast<size_t>(n)});
    changed_.notify_all();
    return true;
  }
  if (--open_[source.rank] == 0) transcript_.end(source.rank);
  changed_.notify_all();
  return false;
}

// Only this thread touches sources_ once it runs.
void Relay::run() {
  for (int rounds_left = 64; rounds_left > 0;) {
    std::vector<pollfd> items{{wakeup_.get(), POLLIN, 0}};
    for (const Source& source : sources_) items.push_back({source.fd.get(), POLLIN, 0});
    if (::poll(items.data(), items.size(), -1) < 0) continue;
    std::vector<size_t> ended;
    bool any = false;
    for (size_t i = 1; i < items.size(); ++i) {
      if (items[i].revents == 0) continue;
      any = true;
      if (!read_some(sources_[i - 1])) ended.push_back(i - 1);
    }
    for (auto it = ended.rbegin(); it != ended.rend(); ++it) {
      sources_.erase(sources_.begin() + static_cast<ptrdiff_t>(*it));
    }
    const std::lock_guard lock(mutex_);
    if (stopping_) rounds_left = any ? rounds_left - 1 : 0;
  }
}

void Relay::finish(int rank) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kLinger, [&] { return open_[rank] == 0; });
}

void Relay::fail(int rank, const std::string& text) {
  const std::lock_guard lock(mutex_);
  transcript_.fail(rank, text);
}

void Relay::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  transcript_.note(text);
}

bool Relay::told(int rank) {
  const std::lock_guard lock(mutex_);
  return transcript_.told(rank);
}

std::optional<std::string> Relay::unreached(int rank) {
  const std::lock_guard lock(mutex_);
  return transcript_.unreached(rank);
}

void Relay::stop() {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLinger, [&] { return std::ranges::count(open_, 0) == std::ssize(open_); });
    stopping_ = true;
  }
  ::eventfd_write(wakeup_.get(), 1);
  thread_.join();
  for (size_t rank = 0; rank < open_.size(); ++rank) {
    if (open_[rank] > 0) transcript_.end(static_cast<int>(rank));
  }
  transcript_.close();
}

}  // namespace entrain::app
