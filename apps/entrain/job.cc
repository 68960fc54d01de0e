#include "job.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/base/process.h"
#include "entrain/base/sha256.h"
#include "entrain/lab/lab.h"
#include "entrain/transport/rendezvous.h"

namespace entrain::app {
namespace {

// A port that is free now at `address`. For PyTorch, whose store wants a number; entrain's own
// sockets are bound by the system and published.
int free_port(const std::string& address) {
  const OwnedFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  socklen_t size = sizeof name;
  name.sin_family = AF_INET;
  inet_pton(AF_INET, address.c_str(), &name.sin_addr);
  auto* generic = reinterpret_cast<sockaddr*>(&name);
  if (fd.get() < 0 || bind(fd.get(), generic, size) != 0 || getsockname(fd.get(), generic, &size) != 0) {
    fail_errno(fmt::format("cannot bind to {}", address));
  }
  return ntohs(name.sin_port);
}

// Where the ranks live: emulated hosts, or just this machine.
struct Site {
  std::unique_ptr<lab::Lab> lab;

  std::string address(int host) const { return lab ? lab->address(host) : "127.0.0.1"; }
  void run_in(int host, const std::function<void()>& work) const {
    if (lab) {
      lab->run_in(host, work);
    } else {
      work();
    }
  }
};

struct Meeting {
  std::string token;
  std::unique_ptr<transport::RendezvousServer> server;
  int master_port = 0;
};

Meeting make_meeting(const cluster::Cluster& cluster, const Site& site) {
  Meeting meeting;
  const std::string secret = random_bytes(16);
  meeting.token = hex({reinterpret_cast<const uint8_t*>(secret.data()), secret.size()});
  site.run_in(0, [&] {
    transport::RendezvousServer::Options options;
    options.bind_address = site.address(0);
    options.world = cluster.world();
    options.token = meeting.token;
    meeting.server = std::make_unique<transport::RendezvousServer>(options);
    meeting.master_port = free_port(site.address(0));
  });
  return meeting;
}

int ranks_on(const cluster::Cluster& cluster, int host) { return std::max(1, cluster.hosts[host].workers); }

std::vector<std::string> environment_of(int rank, const cluster::Cluster& cluster, const Site& site,
                                        const Meeting& meeting, const JobOptions& options) {
  const int host = cluster.host_of(rank);
  transport::JobEnvironment job;
  job.rank = rank;
  job.world = cluster.world();
  job.rendezvous = meeting.server->endpoint();
  job.token = meeting.token;
  job.bind_address = site.address(host);
  // Ranks of one host share its link.
  job.shape_gbit = site.lab ? site.lab->shape_gbit(host) / ranks_on(cluster, host) : 0;
  job.timeout_s = options.timeout_s;
  auto environment = transport::to_environment(job);
  environment.push_back("ENTRAIN_CLUSTER=" + cluster.name);
  environment.push_back(fmt::format("RANK={}", rank));
  environment.push_back(fmt::format("WORLD_SIZE={}", job.world));
  environment.push_back(fmt::format("LOCAL_RANK={}", rank - cluster.first_rank(host)));
  environment.push_back("MASTER_ADDR=" + site.address(0));
  environment.push_back(fmt::format("MASTER_PORT={}", meeting.master_port));
  // All ranks compute on this one machine: without a limit each would take every core.
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    if (!std::getenv(name)) {
      environment.push_back(fmt::format("{}={}", name, std::max(1, cores / job.world)));
    }
  }
  return environment;
}

std::unique_ptr<Process> start_rank(int rank, const cluster::Cluster& cluster,
                                    const std::vector<std::string>& argv, const Site& site,
                                    const Meeting& meeting, const JobOptions& options) {
  ProcessOptions process;
  process.argv = argv;
  process.environment = environment_of(rank, cluster, site, meeting, options);
  process.output = rank == 0 ? ProcessOptions::Output::kInherit : ProcessOptions::Output::kToStderr;
  if (const lab::Lab* lab = site.lab.get()) {
    process.in_child = [lab, host = cluster.host_of(rank)] { return lab->enter(host); };
  }
  return std::make_unique<Process>(process);
}

int exit_code(const GroupEnd& end, int essential) {
  if (end.signal != 0) return 128 + end.signal;
  if (end.first_failed < 0) return 0;
  if (essential >= 0) return end.codes[essential] == 2 ? 2 : 1;
  return std::find(end.codes.begin(), end.codes.end(), 2) != end.codes.end() ? 2 : 1;
}

}  // namespace

int run_job(const cluster::Cluster& cluster, const std::vector<std::string>& argv,
            const JobOptions& options) {
  if (cluster.kind == cluster::Kind::kHosts) {
    bad_input(
        "cluster {}: start the ranks on its hosts yourself, each with ENTRAIN_RANK, ENTRAIN_WORLD, "
        "ENTRAIN_RENDEZVOUS, ENTRAIN_TOKEN and ENTRAIN_BIND set; local:N and lab:... are started here",
        cluster.name);
  }
  SignalCatcher signals;  // before any thread, so that the signals come to us
  Site site;
  if (cluster.kind == cluster::Kind::kLab) site.lab = lab::Lab::create(cluster);
  if (site.lab && site.lab->mode() == lab::LabMode::kUserSpace && !options.own_program) {
    fmt::print(
        stderr,
        "entrain: links are shaped in user space here: only entrain itself keeps to them, {} will not\n",
        argv.front());
  }
  const Meeting meeting = make_meeting(cluster, site);

  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 0; rank < cluster.world(); ++rank) {
    ranks.push_back(start_rank(rank, cluster, argv, site, meeting, options));
  }
  Supervision supervision;
  supervision.grace_s = options.grace_s;
  supervision.on_failure = [&](int rank, int code) {
    const std::string what =
        fmt::format("rank {} on {} {}", rank, site.address(cluster.host_of(rank)), describe_exit(code));
    const bool explained = options.own_program && (code == 1 || code == 2);  // in a line of its own
    if (!explained) fmt::print(stderr, "entrain: {}\n", what);
    meeting.server->abort(what);
  };
  supervision.essential = options.essential_rank;
  supervision.on_loss = [&](int rank, int code) {
    const std::string how = code > 128 ? fmt::format("signal {}", code - 128) : fmt::format("code {}", code);
    fmt::print(stderr, "entrain: rank {} was lost ({}); the others go on\n", rank, how);
    meeting.server->abort(
        fmt::format("rank {} {}", rank, describe_exit(code)));  // whoever still waits for it
  };
  return exit_code(supervise(ranks, signals, supervision), options.essential_rank);
}

}  // namespace entrain::app
