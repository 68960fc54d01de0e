// The second half of process.h: many children, one fate.
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "entrain/base/error.h"
#include "entrain/base/process.h"

namespace entrain {

struct SignalCatcher::Mask {
  sigset_t set;
};

SignalCatcher::SignalCatcher() : before_(std::make_unique<Mask>()) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGINT);
  sigaddset(&wanted, SIGTERM);
  sigaddset(&wanted, SIGHUP);  // the terminal was closed
  pthread_sigmask(SIG_BLOCK, &wanted, &before_->set);
  fd_ = OwnedFd(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd_.get() < 0) {
    pthread_sigmask(SIG_SETMASK, &before_->set, nullptr);
    fail_errno("signalfd");
  }
}

SignalCatcher::~SignalCatcher() { pthread_sigmask(SIG_SETMASK, &before_->set, nullptr); }

std::optional<int> SignalCatcher::take() {
  signalfd_siginfo info;
  if (read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
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
