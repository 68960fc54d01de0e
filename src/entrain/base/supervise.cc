// The second half of process.h: many children, one fate.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include "entrain/base/error.h"
#include "entrain/base/process.h"

namespace entrain {

namespace {

constexpr std::array kCaught{SIGINT, SIGTERM, SIGHUP};  // SIGHUP: the terminal was closed

std::atomic<int> caught_to = -1;  // the descriptor of the catcher that lives

void catch_signal(int number) {
  const int error = errno;
  const char byte = static_cast<char>(number);
  [[maybe_unused]] const ssize_t n = write(caught_to, &byte, 1);  // full: more have come than anybody acts on
  errno = error;
}

}  // namespace

struct SignalCatcher::Before {
  std::array<struct sigaction, kCaught.size()> actions;
};

SignalCatcher::SignalCatcher() : before_(std::make_unique<Before>()) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) fail_errno("pipe2");
  read_ = OwnedFd(ends[0]);
  write_ = OwnedFd(ends[1]);
  caught_to = write_.get();
  struct sigaction action {};
  action.sa_handler = catch_signal;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kCaught.size(); ++i) {
    sigaction(kCaught[i], nullptr, &before_->actions[i]);
    if (before_->actions[i].sa_handler != SIG_IGN) sigaction(kCaught[i], &action, nullptr);
  }
}

SignalCatcher::~SignalCatcher() {
  for (size_t i = 0; i < kCaught.size(); ++i) sigaction(kCaught[i], &before_->actions[i], nullptr);
  caught_to = -1;
}

std::optional<int> SignalCatcher::take() {
  char number;
  if (read(read_.get(), &number, 1) != 1) return std::nullopt;
  return number;
}

namespace {

// Sleeps until a child ends, a signal comes or `until` passes. Ended children leave `running`.
void sleep_until_event(const std::vector<std::unique_ptr<Process>>& group, const std::vector<int>& running,
                       int signal_fd, Deadline until) {
  std::vector<pollfd> items{{signal_fd, POLLIN, 0}};
  for (const int i : running) items.push_back({group[i]->pidfd(), POLLIN, 0});
  if (poll(items.data(), items.size(), until.left_ms()) < 0 && errno != EINTR) fail_errno("poll");
}

}  // namespace

GroupEnd supervise(const std::vector<std::unique_ptr<Process>>& group, SignalCatcher& signals,
                   const Supervision& options) {
  GroupEnd end;
  end.codes.assign(group.size(), 0);
  std::vector<int> running(group.size());
  for (size_t i = 0; i < group.size(); ++i) running[i] = static_cast<int>(i);
  const auto signal_all = [&](int number) {
    for (const int i : running) group[i]->signal(number);
  };

  //  watching ── failure, signal, deadline ──▶ ending (grace) ──▶ SIGTERM (1 s) ──▶ SIGKILL
  enum { kWatching, kEnding, kTerminated, kKilled } phase = kWatching;
  Deadline limit = options.deadline;
  bool essential_ended = false;
  while (!running.empty()) {
    sleep_until_event(group, running, signals.fd(), limit);
    std::erase_if(running, [&](int i) {
      const auto code = group[i]->wait(Deadline::after(0.0));
      if (!code) return false;
      end.codes[i] = *code;
      if (options.on_end) options.on_end(i, *code, phase >= kTerminated || end.signal != 0);
      essential_ended = essential_ended || i == options.essential;
      if (*code == 0 || phase != kWatching || end.first_failed >= 0) return true;
      if (options.essential >= 0 && i != options.essential) {
        if (options.on_loss) options.on_loss(i, *code);
      } else {
        end.first_failed = i;
        if (options.on_failure) options.on_failure(i, *code);
      }
      return true;
    });
    if (const auto number = signals.take()) {
      end.signal = *number;
      signal_all(*number == SIGHUP ? SIGTERM : *number);
      limit =
          Deadline::after(phase == kWatching ? options.signal_grace_s : 0.0);  // the second one is in earnest
      if (phase == kWatching) phase = kEnding;
    } else if ((end.first_failed >= 0 || essential_ended) && phase == kWatching) {
      limit = Deadline::after(options.grace_s), phase = kEnding;
    } else if (limit.passed() && phase == kWatching) {
      end.timed_out = true;
      signal_all(SIGTERM);
      limit = Deadline::after(1.0), phase = kTerminated;
    } else if (limit.passed() && phase == kEnding) {
      signal_all(SIGTERM);
      limit = Deadline::after(1.0), phase = kTerminated;
    } else if (limit.passed() && phase == kTerminated) {
      signal_all(SIGKILL);
      limit = Deadline::never(), phase = kKilled;
    }
  }
  return end;
}

}  // namespace entrain
