#include "entrain/job/context.h"

#include <sys/utsname.h>

#include <cstdlib>
#include <exception>
#include <sstream>

#include "entrain/base/blas.h"
#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/base/memory.h"
#include "entrain/base/sha256.h"
#include "entrain/cluster/environment.h"
#include "entrain/job/control.h"
#include "entrain/job/stop_request.h"
#include "entrain/net/socket.h"
#include "entrain/rendezvous/launch_environment.h"
#include "entrain/transport/control_tags.h"
#include "entrain/transport/inproc/inproc_transport.h"
#include "entrain/transport/mpi/mpi_transport.h"
#include "entrain/transport/tcp/tcp_transport.h"

namespace entrain::job {
namespace {

std::unique_ptr<rendezvous::Server> serve_rendezvous(const rendezvous::JobEnvironment& job) {
  const net::Endpoint endpoint = net::parse_endpoint(job.rendezvous, "ENTRAIN_RENDEZVOUS");
  rendezvous::Server::Options options;
  // On every interface where the ranks listen so, too: a host's name may mean another address elsewhere.
  const bool everywhere = job.bind_address == "0.0.0.0" || job.bind_address == "::";
  options.bind_address = everywhere ? job.bind_address : endpoint.address;
  options.port = endpoint.port;
  options.world = job.world;
  options.token = job.token;
  return std::make_unique<rendezvous::Server>(options);
}

// Ranks that mpirun starts hand the secret on over MPI, whose connections are mpirun's to guard.
std::string token_over_mpi(const rendezvous::JobEnvironment& job) {
  const std::string secret = random_bytes(16);
  const std::string mine = hex({reinterpret_cast<const uint8_t*>(secret.data()), secret.size()});
  const auto mpi = transport::connect_mpi(job);
  return transport::broadcast(*mpi, 0, mine, transport::tags::kToken, Deadline::after(job.timeout_s),
                              "the job token");
}

void check_world(const cluster::Cluster& cluster, const rendezvous::LaunchEnvironment& launch) {
  if (cluster.world() == launch.job.world) return;
  const std::string job =
      launch.is_rank() ? fmt::format("the job of {}", name_of(launch.launcher)) : "a job without a launcher";
  bad_input("the cluster {} has {} ranks, {} has {}", cluster.name, cluster.world(), job, launch.job.world);
}

// The hosts that the launcher put the ranks on. Every rank knows only its own place: they tell each other.
cluster::Cluster hosts_of(transport::Transport& transport, const rendezvous::LaunchEnvironment& launch) {
  utsname system{};
  ::uname(&system);
  const Deadline deadline = Deadline::after(launch.job.timeout_s);
  const std::string mine = fmt::format("{} {}", launch.local_rank, system.nodename);
  auto places =
      transport::gather(transport, 0, mine, transport::tags::kLayout, deadline, "where the ranks are");
  std::string all;
  for (const std::string& place : places) all += place + '\n';
  std::istringstream lines(
      transport::broadcast(transport, 0, all, transport::tags::kLayout, deadline, "where the ranks are"));

  std::vector<int> local(static_cast<size_t>(launch.job.world));
  std::vector<std::string> names(local.size());
  for (size_t rank = 0; rank < local.size(); ++rank) lines >> local[rank] >> names[rank];
  std::vector<int> ranks = rendezvous::ranks_by_host(local);
  if (ranks.size() == 1) return cluster::parse(fmt::format("local:{}", launch.job.world));
  if (ranks.empty()) {
    if (launch.job.rank == 0) {
      log_warn("the ranks of a host do not follow each other: each rank counts as a host of its own");
    }
    ranks.assign(local.size(), 1);
  }
  cluster::Cluster cluster;
  cluster.name = name_of(launch.launcher);
  int first = 0;
  for (const int count : ranks) {
    cluster::Host host;
    host.address = names[static_cast<size_t>(first)];
    // Hosts of one name (containers, a lab) are still apart.
    if (cluster.find(host.address) >= 0) host.address += fmt::format("-{}", cluster.hosts.size());
    host.workers = count;
    host.chief = first == 0;
    cluster.hosts.push_back(host);
    first += count;
  }
  return cluster;
}

}  // namespace

void Context::check_trains() const {
  if (trains()) return;
  bad_input("rank {} only serves parameters in this cluster: call entrain::serve() there", rank());
}

int Context::stop_signal() const { return stop ? stop->signal() : 0; }

// One that is unwinding has not finished its work: the transport tells.
Context::~Context() {
  if (!transport || std::uncaught_exceptions() > 0) return;
  try {
    end_serving(*this);
  } catch (const std::exception&) {
    // The job has failed: they know.
  }
}

Context init(const std::string& cluster) {
  keep_freed_memory();
  Context context;
  const rendezvous::LaunchEnvironment launch = rendezvous::launch_environment(transport::mpi_available);
  context.job = launch.job;
  init_logging(launch.is_rank() ? context.job.rank : -1);
  if (context.job.rank == 0) warn_of_slow_blas();
  const bool foreign = launch.is_rank() && launch.launcher != rendezvous::Launcher::kEntrain;
  if (foreign && context.job.rank == 0) {
    log_info("{} ranks started by {}, over {}", context.job.world, name_of(launch.launcher),
             name_of(launch.backend));
  }
  const char* named = std::getenv("ENTRAIN_CLUSTER");
  const std::string text = !cluster.empty() ? cluster : named ? named : "";
  const auto sent = launch.is_rank() ? cluster::from_environment() : std::nullopt;
  if (sent || !text.empty() || !launch.is_rank()) {  // before anyone is waited for
    context.cluster = sent ? *sent : cluster::parse(text.empty() ? "local:1" : text);
    check_world(context.cluster, launch);
  }
  if (!launch.is_rank()) {
    context.transport = std::move(transport::make_inproc(1).front());
  } else if (launch.backend == rendezvous::Backend::kMpi) {
    context.transport = transport::connect_mpi(context.job);
  } else {
    if (launch.weak_token && context.job.rank == 0) {
      log_warn(
          "ENTRAIN_TOKEN has under 16 characters and could be guessed; make a longer one, e.g. by openssl "
          "rand -hex 16");
    }
    if (launch.token_over_mpi) context.job.token = token_over_mpi(context.job);
    if (context.job.serve) context.rendezvous = serve_rendezvous(context.job);
    context.transport = transport::connect_tcp(context.job, Deadline::after(context.job.timeout_s));
  }
  if (context.cluster.hosts.empty()) context.cluster = hosts_of(*context.transport, launch);
  return context;
}

}  // namespace entrain::job
