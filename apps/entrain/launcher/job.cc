#include "launcher/job.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/base/process.h"
#include "entrain/base/sha256.h"
#include "entrain/net/socket.h"
#include "entrain/rendezvous/job_environment.h"
#include "entrain/rendezvous/server.h"
#include "launcher/relay.h"
#include "launcher/site.h"

namespace entrain::app {
namespace {

// For PyTorch, whose store wants a number: a port that is free now at `address`. entrain's own sockets are
// bound by the system and published.
int free_port(const std::string& address) { return net::local_endpoint(net::listen_on({address, 0})).port; }

// On a host where we cannot look. Systems hand out ports from 32768 on.
int random_port() {
  std::random_device device;
  return std::uniform_int_distribution<int>(15000, 29999)(device);
}

struct Meeting {
  std::string token;
  std::string endpoint;
  std::unique_ptr<rendezvous::Server> server;  // none: rank 0 serves
  int master_port = 0;

  void abort(const std::string& reason) const {
    if (server) server->abort(reason);
  }
};

Meeting make_meeting(const cluster::Cluster& cluster, const Site& site, int port) {
  Meeting meeting;
  const std::string secret = random_bytes(16);
  meeting.token = hex({reinterpret_cast<const uint8_t*>(secret.data()), secret.size()});
  if (!site.here(0)) {
    const net::Endpoint endpoint{site.address(0), port > 0 ? port : random_port()};
    meeting.endpoint = endpoint.text();
    do meeting.master_port = random_port();
    while (meeting.master_port == endpoint.port);
    return meeting;
  }
  site.run_in(0, [&] {
    rendezvous::Server::Options options;
    options.bind_address = site.address(0);
    options.port = port;
    options.world = cluster.world();
    options.token = meeting.token;
    meeting.server = std::make_unique<rendezvous::Server>(options);
    meeting.endpoint = meeting.server->endpoint();
    meeting.master_port = free_port(site.address(0));
  });
  return meeting;
}

int ranks_on(const cluster::Cluster& cluster, int host) { return std::max(1, cluster.hosts[host].workers); }

std::vector<std::string> environment_of(int rank, const cluster::Cluster& cluster, const Site& site,
                                        const Meeting& meeting, const JobOptions& options, int restart) {
  const int host = cluster.host_of(rank);
  rendezvous::JobEnvironment job;
  job.rank = rank;
  job.world = cluster.world();
  job.rendezvous = meeting.endpoint;
  job.token = meeting.token;
  job.bind_address = site.address(host);
  job.shape_gbit = site.shape_gbit(host) / ranks_on(cluster, host);  // ranks of one host share its link
  job.timeout_s = options.timeout_s;
  job.serve = rank == 0 && !meeting.server;
  const char* tls = std::getenv("ENTRAIN_TLS");
  job.encryption = rendezvous::parse_encryption(tls ? tls : "");
  if (site.emulated() && job.encryption == net::Encryption::kBetweenHosts)
    job.encryption = net::Encryption::kNever;
  auto environment = rendezvous::to_environment(job);
  environment.push_back("ENTRAIN_CLUSTER=" + cluster.name);
  if (restart > 0) environment.push_back(fmt::format("ENTRAIN_RESTART={}", restart));
  environment.push_back(fmt::format("RANK={}", rank));
  environment.push_back(fmt::format("WORLD_SIZE={}", job.world));
  environment.push_back(fmt::format("LOCAL_RANK={}", rank - cluster.first_rank(host)));
  environment.push_back("MASTER_ADDR=" + site.address(0));
  environment.push_back(fmt::format("MASTER_PORT={}", meeting.master_port));
  return environment;
}

// What programs are told to end by. Rank 0 of a job that a signal at any rank has ended in order exits with
// it.
bool is_end_signal(int code) { return code == 128 + SIGHUP || code == 128 + SIGINT || code == 128 + SIGTERM; }

// The ranks of a job, and what they write.
class Ranks {
 public:
  Ranks(const cluster::Cluster& cluster, const std::vector<std::string>& argv, const Site& site,
        const Meeting& meeting, const JobOptions& options, int restart)
      : cluster_(cluster), options_(options), relay_(transcript_ranks(cluster, site)) {
    std::vector<ProcessOptions> plans;  // all, before the first is started: nothing is then wrong with any
    for (int rank = 0; rank < cluster.world(); ++rank) {
      ProcessOptions process;
      process.argv = argv;
      process.environment = environment_of(rank, cluster, site, meeting, options, restart);
      site.place(cluster.host_of(rank), process);
      relay_.attach(rank, process);
      plans.push_back(std::move(process));
    }
    relay_.start();
    for (int rank = 0; rank < cluster.world(); ++rank) {
      const ProcessOptions& plan = plans[rank];
      // sshd drops connections when many at once are not logged in yet: 10 by default.
      constexpr int kAtOnce = 8;
      const bool many = rank - cluster.first_rank(cluster.host_of(rank)) >= kAtOnce;
      if (many && plan.signals_by_input) relay_.wait_until_reached(rank - kAtOnce);
      processes_.push_back(std::make_unique<Process>(plan));
      relay_.started(rank);
      commands_.push_back(plan.signals_by_input ? plan.argv : std::vector<std::string>());
    }
  }

  GroupEnd supervise(SignalCatcher& signals, Supervision supervision) {
    supervision.on_end = [this](int rank, int code, bool told) { on_end(rank, code, told); };
    GroupEnd end = entrain::supervise(processes_, signals, supervision);
    relay_.stop();
    return end;
  }

  // "rank 2 on 10.0.0.3 exited with code 3"
  std::string describe(int rank, int code) const {
    return fmt::format("rank {} on {} {}", rank, cluster_.hosts[cluster_.host_of(rank)].address,
                       describe_exit(code));
  }
  void note(const std::string& text) { relay_.note(text); }
  // How the first rank was lost that the job cannot do without; nothing: none was.
  const std::optional<std::string>& lost() const { return lost_; }

 private:
  static std::vector<Transcript::Rank> transcript_ranks(const cluster::Cluster& cluster, const Site& site) {
    std::vector<Transcript::Rank> ranks;
    for (int rank = 0; rank < cluster.world(); ++rank) {
      const int host = cluster.host_of(rank);
      ranks.push_back({site.prefix(rank), !site.here(host), cluster.hosts[host].address});
    }
    return ranks;
  }

  // Makes sure that some line says why the rank ended.
  void on_end(int rank, int code, bool told_to_end) {
    const std::vector<std::string>& ssh = commands_[rank];
    // A rank that was killed here had no time to say why, and the others are about to say that it is gone.
    const bool killed = code > 128 && ssh.empty();
    if (!killed || told_to_end) relay_.finish(rank);
    note_loss(rank, code, told_to_end);
    if (code == 0 || told_to_end) return;
    if (rank == 0 && is_end_signal(code)) {
      relay_.note(fmt::format("rank 0 ended after signal {} ({})", code - 128, strsignal(code - 128)));
      return;
    }
    const auto ssh_said = ssh.empty() ? std::nullopt : relay_.unreached(rank);
    const bool told_by_itself = code < 128 && relay_.told(rank);
    const bool told_as_lost = options_.essential_rank >= 0 && rank != options_.essential_rank;
    if (ssh_said) {
      relay_.fail(rank, explain_ssh(cluster_.hosts[cluster_.host_of(rank)].address, ssh, *ssh_said));
    } else if (!told_by_itself && !told_as_lost) {
      relay_.fail(rank, describe(rank, code));
    }
  }

  // A rank that is told to end and does not, although others have failed, is silent: they gave it up.
  void note_loss(int rank, int code, bool told_to_end) {
    const bool needed = options_.essential_rank < 0 || options_.essential_rank == rank;
    if (lost_ || !needed || (rank == 0 && is_end_signal(code))) return;
    const bool over_ssh = !commands_[rank].empty();
    const bool cut_off = over_ssh && code == 255 && !relay_.unreached(rank);
    const bool killed = code > 128 && !cut_off && !(over_ssh && code == 255);
    if (told_to_end ? code == 128 + SIGKILL : killed || cut_off) lost_ = describe(rank, code);
  }

  const cluster::Cluster& cluster_;
  const JobOptions& options_;
  std::optional<std::string> lost_;
  Relay relay_;
  std::vector<std::vector<std::string>> commands_;  // of ssh; empty: the rank is here
  std::vector<std::unique_ptr<Process>> processes_;
};

int exit_code(const GroupEnd& end, int essential) {
  if (end.signal != 0) return 128 + end.signal;
  if (end.first_failed < 0) return 0;
  if (end.first_failed == 0 && is_end_signal(end.codes[0])) return end.codes[0];
  if (essential >= 0) return end.codes[essential] == 2 ? 2 : 1;
  return std::find(end.codes.begin(), end.codes.end(), 2) != end.codes.end() ? 2 : 1;
}

struct JobEnd {
  int code = 0;
  std::optional<std::string> lost;  // how a rank was lost, and the job with it
};

JobEnd run_once(const cluster::Cluster& cluster, const std::vector<std::string>& argv, const Site& site,
                const JobOptions& options, int restart, SignalCatcher& signals) {
  const Meeting meeting = make_meeting(cluster, site, options.remote.port);
  Ranks ranks(cluster, argv, site, meeting, options, restart);
  Supervision supervision;
  supervision.grace_s = options.grace_s;
  supervision.on_failure = [&](int rank, int code) { meeting.abort(ranks.describe(rank, code)); };
  supervision.essential = options.essential_rank;
  supervision.on_loss = [&](int rank, int code) {
    const std::string how = code > 128 ? fmt::format("signal {}", code - 128) : fmt::format("code {}", code);
    ranks.note(fmt::format("rank {} was lost ({}); the others go on", rank, how));
    meeting.abort(fmt::format("rank {} {}", rank, describe_exit(code)));  // whoever still waits for it
  };
  const GroupEnd end = ranks.supervise(signals, supervision);
  const int code = exit_code(end, options.essential_rank);
  return {code, code == 1 ? ranks.lost() : std::nullopt};
}

}  // namespace

int run_job(const cluster::Cluster& cluster, const std::vector<std::string>& argv,
            const JobOptions& options) {
  SignalCatcher signals;
  const auto site = make_site(cluster, options.remote, options.own_program, argv.front());
  for (int restart = 0;; ++restart) {
    const JobEnd end = run_once(cluster, argv, *site, options, restart, signals);
    if (!end.lost || restart == options.restarts) return end.code;
    log_warn("{}: the job is started again from its newest checkpoint (restart {} of {})", *end.lost,
             restart + 1, options.restarts);
  }
}

}  // namespace entrain::app
