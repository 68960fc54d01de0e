#include "entrain/base/process.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "entrain/base/error.h"

namespace entrain {
namespace {

constexpr double kEndGrace = 1.0;        // seconds between SIGTERM and SIGKILL
constexpr double kInputPatience = 30.0;  // seconds that a child may take to read its input

// What the child reports through a pipe that exec closes: nothing means that exec succeeded.
struct StartFailure {
  bool in_setup;
  int error;
};

std::vector<std::string> merged_environment(const std::vector<std::string>& extra) {
  const auto name = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  std::vector<std::string> merged = extra;
  for (char** entry = environ; *entry; ++entry) {
    bool replaced = false;
    for (const auto& mine : extra) replaced = replaced || name(mine) == name(*entry);
    if (!replaced) merged.emplace_back(*entry);
  }
  return merged;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const auto& s : strings) result.push_back(const_cast<char*>(s.c_str()));
  result.push_back(nullptr);
  return result;
}

bool redirect(int target, ProcessOptions::Output where, const OwnedFd& capture, int given) {
  if (where == ProcessOptions::Output::kCapture) return dup2(capture.get(), target) >= 0;
  if (where == ProcessOptions::Output::kTo) return dup2(given, target) >= 0;
  if (where == ProcessOptions::Output::kToStderr && target != 2) return dup2(2, target) >= 0;
  return true;
}

struct Pipe {
  OwnedFd read, write;
};

// A pipe that takes `size` bytes at once where the system allows it, so that its writer need not wait for its
// reader.
Pipe pipe_for(size_t size) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_errno("pipe2");
  Pipe pipe{OwnedFd(ends[0]), OwnedFd(ends[1])};
  constexpr size_t kUsual = 1 << 16;  // bytes that a pipe holds anyway
  if (size > kUsual) fcntl(pipe.write.get(), F_SETPIPE_SZ, size);
  fcntl(pipe.write.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

// All of it by `deadline`, or until its reader is gone, whose end wait() finds: without SIGPIPE.
void write_quietly(int fd, std::string_view text, Deadline deadline) {
  sigset_t pipe_signal, before, pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  bool closed = false;
  while (!text.empty() && !closed) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (n < 0 && errno == EAGAIN && !deadline.passed()) {
      pollfd item{fd, POLLOUT, 0};
      poll(&item, 1, deadline.left_ms());
    } else {
      closed = errno != EINTR;
    }
  }
  const timespec at_once{};
  if (closed && !sigismember(&pending, SIGPIPE)) sigtimedwait(&pipe_signal, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

OwnedFd memory_file() {
  OwnedFd fd(memfd_create("entrain-output", MFD_CLOEXEC));
  if (fd.get() < 0) fail_errno("memfd_create");
  return fd;
}

void append_file(int fd, std::string& text) {
  char buffer[4096];
  off_t at = 0;
  for (ssize_t n; fd >= 0 && (n = pread(fd, buffer, sizeof buffer, at)) > 0; at += n) text.append(buffer, n);
}

}  // namespace

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) ::close(fd_);
}

int OwnedFd::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

Process::Process(const ProcessOptions& options) {
  if (options.argv.empty()) bad_input("cannot start a process: no command given");
  // All memory is allocated here: after fork() only async-signal-safe calls are allowed.
  const auto argv = pointers(options.argv);
  const auto environment = merged_environment(options.environment);
  const auto envp = pointers(environment);
  if (options.output == ProcessOptions::Output::kCapture) output_ = memory_file();
  if (options.errors == ProcessOptions::Output::kCapture) errors_ = memory_file();
  Pipe report = pipe_for(sizeof(StartFailure));
  Pipe input;
  if (options.input) input = pipe_for(options.input->size());

  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) fail_errno("cannot start " + options.argv[0] + ": fork");
  if (pid_ == 0) {
    bool in_setup = true;
    // A SignalCatcher's handlers, which are ours until exec, would tell the parent.
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action;
      sigaction(number, nullptr, &action);
      if (action.sa_handler != SIG_IGN) ::signal(number, SIG_DFL);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent died before prctl() could take effect
    if ((!options.in_child || options.in_child()) &&
        redirect(1, options.output, output_, options.output_fd) &&
        redirect(2, options.errors, errors_, options.errors_fd) &&
        (!options.input || dup2(input.read.get(), 0) >= 0)) {
      in_setup = false;
      execvpe(argv[0], argv.data(), envp.data());
    }
    const StartFailure failure{in_setup, errno};
    [[maybe_unused]] const ssize_t n = write(report.write.get(), &failure, sizeof failure);
    _exit(127);
  }
  report.write = OwnedFd();
  pidfd_ = OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  StartFailure failure;
  ssize_t n;
  do n = read(report.read.get(), &failure, sizeof failure);
  while (n < 0 && errno == EINTR);
  if (n == sizeof failure || pidfd_.get() < 0) {
    const int error = n == sizeof failure ? failure.error : errno;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    const bool in_setup = n == sizeof failure && failure.in_setup;
    fail("cannot start {}: {}{}", options.argv[0], in_setup ? "setting it up: " : "", std::strerror(error));
  }
  if (options.input) {
    input_ = std::move(input.write);
    signals_by_input_ = options.signals_by_input;
    write_quietly(input_.get(), *options.input, Deadline::after(kInputPatience));
  }
}

Process::~Process() {
  if (wait(Deadline::after(0.0))) return;
  signal(SIGTERM);
  if (wait(Deadline::after(kEndGrace))) return;
  signal(SIGKILL);
  wait(Deadline::never());
}

std::optional<int> Process::wait(Deadline deadline) {
  while (!code_) {
    pollfd item{pidfd_.get(), POLLIN, 0};
    const int ready = poll(&item, 1, deadline.left_ms());
    if (ready < 0 && errno != EINTR) fail_errno("poll");
    if (ready <= 0) {
      if (deadline.passed()) return std::nullopt;
      continue;
    }
    // Still a zombie, so its number is still its group's: end what it left running there.
    ::kill(-pid_, SIGKILL);
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_) fail_errno("waitpid");
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return code_;
}

void Process::signal(int number) {
  if (code_) return;
  if (signals_by_input_ && number != SIGKILL) {
    write_quietly(input_.get(), fmt::format("{}\n", number), Deadline::after(0.0));
  } else {
    ::kill(-pid_, number);
  }
}

std::string Process::captured() const {
  std::string text;
  append_file(output_.get(), text);
  append_file(errors_.get(), text);
  return text;
}

std::string describe_exit(int code) {
  if (code > 128 && code < 128 + NSIG) {
    return fmt::format("was killed by signal {} ({})", code - 128, strsignal(code - 128));
  }
  return fmt::format("exited with code {}", code);
}

void run_command(const ProcessOptions& options, Deadline deadline) {
  ProcessOptions captured = options;
  captured.errors = ProcessOptions::Output::kCapture;
  Process process(captured);
  const auto code = process.wait(deadline);
  if (code == 0) return;
  std::string text = process.captured();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text) c = c == '\n' ? ' ' : c;
  if (!code) text = "did not end in time. " + text;
  if (text.empty()) text = describe_exit(*code);
  fail("{}: {}", fmt::join(options.argv, " "), text);
}

}  // namespace entrain
