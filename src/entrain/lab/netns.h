// A network namespace without a name: it lives as long as a descriptor or a process refers to it,
// so the kernel removes it, its links and its addresses with the last of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "entrain/base/process.h"

namespace entrain::lab {

class NetworkNamespace {
 public:
  // Throws Error when this process may not make one.
  static NetworkNamespace create();

  int fd() const { return fd_.get(); }

  // Moves the calling thread (in a forked child: the process) into the namespace. False: failed,
  // errno says why. Async-signal-safe.
  bool enter() const;

  // Runs `work` on a thread inside the namespace and waits. Sockets and threads that it makes stay
  // inside. Rethrows what it throws.
  void run(const std::function<void()>& work) const;

  // Runs a program inside. `passed_fd` >= 0 stays open in it, as /proc/self/fd/N.
  // Throws Error with the command and its stderr.
  void command(const std::vector<std::string>& argv, int passed_fd = -1) const;

 private:
  explicit NetworkNamespace(int fd) : fd_(fd) {}
  OwnedFd fd_;
};

}  // namespace entrain::lab
