#include "entrain/lab/netns.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <thread>

#include "entrain/base/error.h"

namespace entrain::lab {

namespace {

// Debian keeps ip and tc where only root's PATH looks.
std::string find_tool(const std::string& name) {
  for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"}) {
    if (access((folder + name).c_str(), X_OK) == 0) return folder + name;
  }
  fail("{} is not installed (package iproute2)", name);
}

}  // namespace

NetworkNamespace NetworkNamespace::create() {
  int fd = -1, error = 0;
  // Namespaces belong to threads: this one moves into a new namespace, hands out a descriptor, ends.
  std::thread([&] {
    if (unshare(CLONE_NEWNET) == 0) fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    error = errno;
  }).join();
  if (fd < 0) fail("cannot make a network namespace: {}", std::strerror(error));
  return NetworkNamespace(fd);
}

bool NetworkNamespace::enter() const { return setns(fd_.get(), CLONE_NEWNET) == 0; }

void NetworkNamespace::run(const std::function<void()>& work) const {
  std::exception_ptr error;
  std::thread([&] {
    try {
      if (!enter()) fail_errno("cannot enter the network namespace");
      work();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

void NetworkNamespace::command(const std::vector<std::string>& argv, int passed_fd) const {
  ProcessOptions options;
  options.argv = argv;
  options.argv[0] = find_tool(argv[0]);
  options.in_child = [this, passed_fd] {
    return enter() && (passed_fd < 0 || fcntl(passed_fd, F_SETFD, 0) == 0);
  };
  run_command(options, Deadline::after(20.0));
}

}  // namespace entrain::lab
