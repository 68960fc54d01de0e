// Child processes that never outlive their parent.
//
// A child leads a process group of its own (a terminal's Ctrl-C reaches only the parent, which
// passes it on) and is killed by the kernel when the parent thread that started it ends, even by
// kill -9. Start children from a thread that lives as long as they should.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "entrain/base/clock.h"

namespace entrain {

// Owns a file descriptor.
class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.release()) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd();

  int get() const { return fd_; }
  int release();

 private:
  int fd_;
};

struct ProcessOptions {
  // Where the child's output goes. kCapture keeps it in memory; see Process::captured(). kTo: to a descriptor
  // of the caller's, who keeps it.
  enum class Output { kInherit, kToStderr, kCapture, kTo };

  std::vector<std::string> argv;         // argv[0] is looked up in PATH
  std::vector<std::string> environment;  // "NAME=value": added to ours, or in place of ours
  // Runs in the child between fork and exec, e.g. to join a namespace. False: failed, errno says why.
  // Requires: only async-signal-safe calls (no allocation: another thread may have held the lock).
  std::function<bool()> in_child;
  Output output = Output::kInherit;  // stdout
  Output errors = Output::kInherit;  // stderr
  int output_fd = -1;                // of kTo
  int errors_fd = -1;
  // Given: the child reads this from stdin, and then nothing until the Process is destroyed or its parent
  // dies: its stdin ends then. More than a pipe holds (1 MB) is waited for. Without it the child has our
  // stdin.
  std::optional<std::string> input;
  // Process::signal() does not signal the child but writes its number on a line to its stdin: the child
  // stands for a process elsewhere and passes signals on. SIGKILL is still a signal. Requires: `input`.
  bool signals_by_input = false;
};

class Process {
 public:
  // Returns once the program runs. Throws Error naming argv[0] when it cannot be started.
  explicit Process(const ProcessOptions& options);
  // Ends the child: SIGTERM to its group, SIGKILL one second later; reaps it.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // readable once the child has ended

  // The exit code (128 + signal when a signal ended it), or nothing when it still runs at the deadline.
  // Whatever an ended child left running in its group is killed.
  std::optional<int> wait(Deadline deadline);
  // To the whole process group (but see ProcessOptions::signals_by_input). Does nothing once the child is
  // reaped.
  void signal(int number);
  // What a kCapture stream holds by now: stdout, then stderr.
  std::string captured() const;

 private:
  pid_t pid_ = -1;
  OwnedFd pidfd_;
  OwnedFd output_;
  OwnedFd errors_;
  OwnedFd input_;
  bool signals_by_input_ = false;
  std::optional<int> code_;
};

// "exited with code 3", "was killed by signal 9 (Killed)".
std::string describe_exit(int code);

// Runs a command to its end. Throws Error "COMMAND: its stderr" when it fails or passes the deadline.
void run_command(const ProcessOptions& options, Deadline deadline);

// While one lives, SIGINT, SIGTERM and SIGHUP are delivered to its descriptor and end nothing by themselves,
// whichever thread they come to: libraries start threads before main(). Those that were ignored stay so
// (nohup). Requires: at most one lives.
class SignalCatcher {
 public:
  SignalCatcher();
  ~SignalCatcher();
  SignalCatcher(const SignalCatcher&) = delete;
  SignalCatcher& operator=(const SignalCatcher&) = delete;

  int fd() const { return read_.get(); }
  std::optional<int> take();  // a signal that has come, without blocking

 private:
  OwnedFd read_, write_;
  struct Before;
  std::unique_ptr<Before> before_;
};

struct Supervision {
  double grace_s = 5;          // after the first failure the others end by themselves, saying why
  double signal_grace_s = 60;  // told to end, they may finish a step and save; a second signal ends this
  Deadline deadline = Deadline::never();
  // Called for each that has ended, before the two below, with its index, exit code and whether it was told
  // to end.
  std::function<void(int, int, bool)> on_end;
  // Called once, with the index and exit code of the first that failed.
  std::function<void(int, int)> on_failure;
  // The index of the only one that the group needs; -1: it needs all. Another that fails is told to `on_loss`
  // and the group goes on. Once this one has ended, the others have `grace_s` to do so.
  int essential = -1;
  std::function<void(int, int)> on_loss;
};

struct GroupEnd {
  std::vector<int> codes;  // as Process::wait gives them
  int first_failed = -1;   // index, of those needed; -1: none
  int signal = 0;          // SIGINT, SIGTERM or SIGHUP, when we were told to end
  bool timed_out = false;
};

// Waits until all have ended. After the first failure, a signal to us (passed on to all; SIGHUP as SIGTERM,
// for which programs have an orderly end) or the deadline, whoever still runs `grace_s` later is ended. None
// runs when this returns.
GroupEnd supervise(const std::vector<std::unique_ptr<Process>>& group, SignalCatcher& signals,
                   const Supervision& options);

}  // namespace entrain
