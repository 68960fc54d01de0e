#include "entrain/lab/mode.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/process.h"
#include "entrain/lab/netns.h"

namespace entrain::lab {
namespace {

// Set once we have restarted ourselves inside a user namespace.
constexpr const char* kInside = "ENTRAIN_LAB_INSIDE";

void write_proc(const char* path, const std::string& text) {
  const OwnedFd fd(open(path, O_WRONLY | O_CLOEXEC));
  if (fd.get() < 0 || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    fail_errno(fmt::format("cannot write {}", path));
  }
}

// Runs this very command again under unshare(1): same process, which starts inside the namespace.
void restart_inside() {
  // -U: a user namespace, -r: this user is root in it.
  std::vector<std::string> argv{"unshare", "-U", "-r", "--",
                                std::filesystem::read_symlink("/proc/self/exe").string()};
  const std::string line = read_file("/proc/self/cmdline");  // arguments, each ended by a 0 byte
  for (size_t at = line.find('\0') + 1; at < line.size(); at = line.find('\0', at) + 1) {
    argv.push_back(line.c_str() + at);
  }
  std::vector<char*> pointers;
  for (auto& word : argv) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  setenv(kInside, "1", 1);
  execvp(pointers[0], pointers.data());
  unsetenv(kInside);
  fail_errno("cannot start unshare");
}

// A bridge, a veth pair and a shaped queue: all that a lab is made of.
void try_everything() {
  const auto a = NetworkNamespace::create();
  const auto b = NetworkNamespace::create();
  a.command({"ip", "link", "add", "br0", "type", "bridge"});
  a.command({"ip", "link", "add", "p0", "type", "veth", "peer", "name", "eth0", "netns",
             fmt::format("/proc/self/fd/{}", b.fd())},
            b.fd());
  a.command({"tc", "qdisc", "add", "dev", "p0", "root", "tbf", "rate", "100mbit", "burst", "128kb", "latency",
             "20ms"});
}

}  // namespace

std::string to_string(LabMode mode) {
  switch (mode) {
    case LabMode::kRoot:
      return "root";
    case LabMode::kUserNamespace:
      return "user";
    case LabMode::kUserSpace:
      return "userspace";
  }
  return "?";
}

std::optional<LabMode> mode_from_environment() {
  const char* value = std::getenv("ENTRAIN_LAB");
  if (!value || !*value) return std::nullopt;
  for (const auto mode : {LabMode::kRoot, LabMode::kUserNamespace, LabMode::kUserSpace}) {
    if (to_string(mode) == value) return mode;
  }
  bad_input("ENTRAIN_LAB={}: allowed are root, user, userspace", value);
}

std::string why_not(LabMode mode) {
  if (mode == LabMode::kUserSpace) return "";
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) fail_errno("pipe2");
  OwnedFd read_end(report[0]);
  OwnedFd write_end(report[1]);
  const pid_t child = fork();
  if (child < 0) fail_errno("fork");
  if (child == 0) {
    std::string reason;
    try {
      if (mode == LabMode::kUserNamespace) enter_user_namespace();
      try_everything();
    } catch (const std::exception& e) {
      reason = e.what();
    }
    [[maybe_unused]] const ssize_t n = write(write_end.get(), reason.data(), reason.size());
    _exit(0);
  }
  write_end = OwnedFd();
  std::string reason;
  char buffer[512];
  for (ssize_t n; (n = read(read_end.get(), buffer, sizeof buffer)) > 0;) reason.append(buffer, n);
  waitpid(child, nullptr, 0);
  return reason;
}

void enter_user_namespace() {
  if (std::getenv(kInside)) return;
  const auto uid = geteuid();
  const auto gid = getegid();
  if (unshare(CLONE_NEWUSER) != 0) {
    if (errno == EINVAL) restart_inside();  // we have threads: a BLAS library starts its own before main()
    fail_errno("cannot make a user namespace");
  }
  write_proc("/proc/self/setgroups", "deny");
  write_proc("/proc/self/uid_map", fmt::format("0 {} 1", uid));
  write_proc("/proc/self/gid_map", fmt::format("0 {} 1", gid));
}

}  // namespace entrain::lab
