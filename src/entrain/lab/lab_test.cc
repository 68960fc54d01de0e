#include "entrain/lab/lab.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>
#include <tuple>

#include "entrain/base/error.h"
#include "entrain/base/files.h"

namespace entrain::lab {
namespace {

cluster::Cluster two_hosts(double gbit) {
  cluster::Cluster cluster;
  cluster.kind = cluster::Kind::kLab;
  for (const char* address : {"198.18.0.1", "198.18.0.2"}) {
    cluster::Host host;
    host.address = address;
    host.bandwidth_gbit = gbit;
    cluster.hosts.push_back(host);
  }
  return cluster;
}

sockaddr_in endpoint(const std::string& address, int port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, address.c_str(), &name.sin_addr);
  return name;
}

// A connection from host 0 to host 1: .first sends, .second receives.
std::pair<OwnedFd, OwnedFd> connect_hosts(const Lab& lab) {
  OwnedFd listener, sender;
  int port = 0;
  lab.run_in(1, [&] {
    listener = OwnedFd(socket(AF_INET, SOCK_STREAM, 0));
    auto name = endpoint(lab.address(1), 0);
    socklen_t size = sizeof name;
    if (bind(listener.get(), reinterpret_cast<sockaddr*>(&name), size) != 0) fail_errno("bind");
    if (listen(listener.get(), 1) != 0) fail_errno("listen");
    getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size);
    port = ntohs(name.sin_port);
  });
  lab.run_in(0, [&] {
    sender = OwnedFd(socket(AF_INET, SOCK_STREAM, 0));
    const auto name = endpoint(lab.address(1), port);
    if (connect(sender.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
      fail_errno("connect");
    }
  });
  return {std::move(sender), OwnedFd(accept(listener.get(), nullptr, nullptr))};
}

double transfer_seconds(const std::pair<OwnedFd, OwnedFd>& link, size_t bytes) {
  const auto start = Clock::now();
  std::thread writer([&] {
    std::vector<char> block(1 << 16);
    for (size_t sent = 0; sent < bytes;) {
      const ssize_t n =
          send(link.first.get(), block.data(), std::min(block.size(), bytes - sent), MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<size_t>(n);
    }
  });
  std::vector<char> block(1 << 16);
  for (size_t got = 0; got < bytes;) {
    const ssize_t n = recv(link.second.get(), block.data(), block.size(), 0);
    if (n <= 0) break;
    got += static_cast<size_t>(n);
  }
  writer.join();
  return seconds_since(start);
}

// The network namespaces that a process holds by descriptor or is in.
std::set<std::string> namespaces_of(pid_t pid) {
  const auto proc = std::filesystem::path("/proc") / std::to_string(pid);
  std::set<std::string> names = {std::filesystem::read_symlink(proc / "ns/net").string()};
  for (const auto& entry : std::filesystem::directory_iterator(proc / "fd")) {
    const auto name = std::filesystem::read_symlink(entry.path()).string();
    if (name.starts_with("net:")) names.insert(name);
  }
  return names;
}

// The process that is in network namespace `name`, 0 for none.
pid_t process_in(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::error_code none;
    const auto link = std::filesystem::read_symlink(entry.path() / "ns/net", none);
    if (!none && link == name) return std::stoi(entry.path().filename().string());
  }
  return 0;
}

std::unique_ptr<Lab> namespace_lab(double gbit, std::string& skip) {
  skip = why_not(LabMode::kRoot);
  if (!skip.empty()) skip = "no network namespaces: " + skip;
  return skip.empty() ? Lab::create(two_hosts(gbit), LabMode::kRoot) : nullptr;
}

bool shell(const std::string& command) {
  return std::system(("PATH=$PATH:/usr/sbin:/sbin; { " + command + "; } >/dev/null 2>&1").c_str()) == 0;
}

// What a lab is made of, without entrain.
const std::string kByHand =
    "sh -c 'ip link add br0 type bridge && ip link add p0 type veth peer name eth0 && "
    "tc qdisc add dev p0 root tbf rate 100mbit burst 128kb latency 20ms'";

// Or the tests below would skip themselves on a machine where nothing stands in a lab's way.
TEST(Lab, FindsNothingAgainstNamespacesWhereTheyCanBeMadeByHand) {
  if (!shell("unshare -n " + kByHand)) GTEST_SKIP() << "no network namespaces here";
  EXPECT_EQ(why_not(LabMode::kRoot), "");
}

TEST(Lab, SaysWhyANobodyCannotMakeNamespaces) {
  if (getuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  int report[2];
  ASSERT_EQ(pipe(report), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
    const std::string reason = why_not(LabMode::kRoot);
    _exit(write(report[1], reason.data(), reason.size()) == static_cast<ssize_t>(reason.size()) ? 0 : 1);
  }
  close(report[1]);
  std::string reason;
  char c = 0;
  while (read(report[0], &c, 1) == 1) reason += c;
  close(report[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_NE(reason.find("cannot make a network namespace: Operation not permitted"), std::string::npos)
      << reason;
}

TEST(Lab, HostsReachEachOtherAtTheirBandwidthAndNotTheMachine) {
  std::string skip;
  const auto before = read_file("/proc/self/net/dev");
  const auto lab = namespace_lab(0.1, skip);
  if (!lab) GTEST_SKIP() << skip;
  const auto link = connect_hosts(*lab);
  // 20 MB at 100 Mbit/s is 1.6 s; never faster than the link, however long this machine takes.
  EXPECT_GT(transfer_seconds(link, 20'000'000), 1.5);
  const auto devices = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  EXPECT_EQ(devices(before), devices(read_file("/proc/self/net/dev")));
}

TEST(Lab, ACutHostHearsNothingUntilRestored) {
  std::string skip;
  const auto lab = namespace_lab(1, skip);
  if (!lab) GTEST_SKIP() << skip;
  const auto link = connect_hosts(*lab);
  lab->cut(1);
  ASSERT_EQ(send(link.first.get(), "x", 1, 0), 1);
  pollfd item{link.second.get(), POLLIN, 0};
  EXPECT_EQ(poll(&item, 1, 300), 0);
  lab->restore(1);
  EXPECT_EQ(poll(&item, 1, 20000), 1);  // TCP sends it again
}

TEST(Lab, EveryHostHasTheSameCongestionControlWhateverTheMachinePrefers) {
  std::string skip;
  const auto lab = namespace_lab(1, skip);
  if (!lab) GTEST_SKIP() << skip;
  for (const int host : {0, 1}) {
    std::string control;
    lab->run_in(host, [&] { control = read_file("/proc/sys/net/ipv4/tcp_congestion_control"); });
    EXPECT_TRUE(control == "cubic\n" || control == "reno\n") << control;
  }
}

// Of what a host sends: bytes that tc says it holds back at most, and lets through at once.
std::pair<double, double> limit_and_burst(const Lab& lab) {
  std::string text;
  lab.run_in(0, [&] {
    FILE* out =
        popen("PATH=$PATH:/usr/sbin:/sbin; tc -r qdisc show dev eth0; tc -j qdisc show dev eth0", "r");
    char buffer[256];
    while (fgets(buffer, sizeof buffer, out)) text += buffer;
    pclose(out);
  });
  const auto after = [&](const std::string& key) {
    const size_t at = text.find(key);
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? 0.0 : std::stod(text.substr(at + key.size()));
  };
  return {after("limit "), after("\"burst\":")};
}

// 15 ms of queue and a millisecond at once, but no less than a link of 1 Gbit/s queues and two TCP segments
// of 64 KB. (The kernel rounds.)
TEST(Lab, ALinkQueuesAsASwitchDoes) {
  std::string skip;
  for (const auto& [gbit, limit, burst] :
       {std::tuple(0.1, 2e6 + 131072, 131072.0), {10, 18.75e6 + 1.25e6, 1.25e6}}) {
    const auto lab = namespace_lab(gbit, skip);
    if (!lab) GTEST_SKIP() << skip;
    const auto [limit_is, burst_is] = limit_and_burst(*lab);
    EXPECT_NEAR(limit_is, limit, 0.01 * limit) << gbit;
    EXPECT_NEAR(burst_is, burst, 0.01 * burst) << gbit;
  }
}

TEST(Lab, ALinkWithoutBandwidthIsRefused) {
  for (const double gbit : {0.0, -1.0})
    EXPECT_THROW(Lab::create(two_hosts(gbit), LabMode::kUserSpace), InputError);
}

TEST(Lab, EveryHostHasAnAddressOfItsOwn) {
  cluster::Cluster cluster = two_hosts(1);
  cluster.hosts.resize(600, cluster.hosts[0]);
  const auto lab = Lab::create(cluster, LabMode::kUserSpace);
  std::set<std::string> addresses;
  for (int host = 0; host < lab->hosts(); ++host) {
    in_addr address{};
    EXPECT_EQ(inet_pton(AF_INET, lab->address(host).c_str(), &address), 1) << lab->address(host);
    EXPECT_NE(ntohl(address.s_addr) & 255, 0U);
    addresses.insert(lab->address(host));
  }
  EXPECT_EQ(addresses.size(), 600U);
  EXPECT_EQ(lab->address(250), "127.0.1.1");
}

TEST(Lab, RunInRethrows) {
  std::string skip;
  const auto lab = namespace_lab(1, skip);
  if (!lab) GTEST_SKIP() << skip;
  EXPECT_THROW(lab->run_in(0, [] { bad_input("no"); }), InputError);
}

TEST(Lab, NothingIsLeftAfterKill9) {
  const std::string reason = why_not(LabMode::kRoot);
  if (!reason.empty()) GTEST_SKIP() << "no network namespaces: " << reason;
  int report[2];
  ASSERT_EQ(pipe(report), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const auto lab = Lab::create(two_hosts(1), LabMode::kRoot);
    ProcessOptions options;
    options.argv = {"sleep", "100"};
    options.in_child = [&lab] { return lab->enter(1); };
    Process process(options);
    const pid_t pid = process.pid();
    if (write(report[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    pause();
  }
  pid_t child = 0;
  ASSERT_EQ(read(report[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  auto made = namespaces_of(owner);  // other labs of this machine are not asked about
  made.merge(namespaces_of(child));
  made.erase(std::filesystem::read_symlink("/proc/self/ns/net").string());
  EXPECT_EQ(made.size(), 3u) << "two hosts and the bridge";
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  const Deadline deadline = Deadline::after(10.0);
  while (kill(child, 0) == 0 && !deadline.passed())
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // A namespace without process, descriptor or mount is gone: there was never a name to keep it.
  EXPECT_NE(kill(child, 0), 0);
  for (const auto& name : made) EXPECT_EQ(process_in(name), 0) << name;
}

// In a process of its own, which drops its privileges: 0 works, 1 failed, 2 no user namespaces here.
TEST(Lab, WorksWithoutPrivilegeInAUserNamespace) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 1;
    try {
      if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) fail_errno("setuid");
      prctl(PR_SET_DUMPABLE, 1);  // or /proc/self would stay root's, unlike after an exec
      const std::string reason = why_not(LabMode::kUserNamespace);
      if (!reason.empty()) {
        fmt::print("{}\n", reason);
        fflush(stdout);
        _exit(shell("unshare -U -r -n " + kByHand) ? 1 : 2);
      }
      const auto lab = Lab::create(two_hosts(0.1), LabMode::kUserNamespace);
      code = transfer_seconds(connect_hosts(*lab), 5'000'000) > 0.35 ? 0 : 1;
    } catch (const std::exception& e) {
      fmt::print(stderr, "{}\n", e.what());
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Lab, WithoutNamespacesItUsesLoopbackAndAsksTheProgramToShape) {
  const auto lab = Lab::create(two_hosts(0.3), LabMode::kUserSpace);
  EXPECT_EQ(lab->address(1), "127.0.0.2");
  EXPECT_DOUBLE_EQ(lab->shape_gbit(1), 0.3);
  EXPECT_GT(connect_hosts(*lab).second.get(), 0);
  EXPECT_THROW(lab->cut(0), Error);
}

// Run by the test below, in a process of its own.
TEST(LabChild, DISABLED_EntersAUserNamespaceWithAThread) {
  std::thread([] { pause(); }).detach();  // the kernel refuses a user namespace to a process with threads
  enter_user_namespace();
  std::string arguments = read_file("/proc/self/cmdline");
  std::replace(arguments.begin(), arguments.end(), '\0', '|');
  fmt::print("as {} with {}\n", getuid(), arguments.substr(arguments.find('|')));
}

TEST(LabMode, AProgramWithThreadsStartsAgainInsideOfAUserNamespaceWithItsArguments) {
  if (!shell("unshare -U -r true")) GTEST_SKIP() << "no user namespaces here";
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  FILE* out = popen(
      ("timeout 20 " + self + " --gtest_also_run_disabled_tests --gtest_filter=LabChild.* 'one argument' two")
          .c_str(),
      "r");
  std::string text;
  char buffer[256];
  while (fgets(buffer, sizeof buffer, out)) text += buffer;
  EXPECT_EQ(pclose(out), 0) << text;
  EXPECT_NE(
      text.find("as 0 with |--gtest_also_run_disabled_tests|--gtest_filter=LabChild.*|one argument|two|\n"),
      std::string::npos)
      << text;
}

TEST(LabMode, EnvironmentOverrideIsChecked) {
  setenv("ENTRAIN_LAB", "docker", 1);
  EXPECT_THROW(mode_from_environment(), InputError);
  setenv("ENTRAIN_LAB", "user", 1);
  EXPECT_EQ(mode_from_environment(), LabMode::kUserNamespace);
  unsetenv("ENTRAIN_LAB");
  EXPECT_EQ(mode_from_environment(), std::nullopt);
}

}  // namespace
}  // namespace entrain::lab
