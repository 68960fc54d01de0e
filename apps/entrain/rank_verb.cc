#include "rank_verb.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/log.h"
#include "entrain/base/reason.h"
#include "entrain/job/stop_request.h"
#include "entrain/rendezvous/launch_environment.h"
#include "entrain/transport/mpi/mpi_transport.h"
#include "launcher/capacity.h"
#include "launcher/job.h"
#include "launcher/local_address.h"

namespace entrain::app {
namespace {

volatile std::sig_atomic_t last_signal = 0;

// In the environment of ranks that run_on_ranks() starts on this host; on others it is "ssh" (site.cc).
constexpr const char* kStarted = "ENTRAIN_STARTED";

enum class Starter { kOther, kHere, kOverSsh };
Starter starter() {
  const char* value = std::getenv(kStarted);
  if (!value) return Starter::kOther;
  return std::string_view(value) == "ssh" ? Starter::kOverSsh : Starter::kHere;
}

// A process whose environment lacks something that a rank needs is meant to be one: init() names what is
// missing.
bool is_rank() {
  try {
    return rendezvous::launch_environment(transport::mpi_available).is_rank();
  } catch (const InputError&) {
    return true;
  }
}

// Whether rank 0 of a job that this process starts runs on this host.
bool first_rank_here(const cluster::Cluster& cluster) {
  return cluster.kind != cluster::Kind::kHosts || is_local(cluster.hosts.front().address);
}
bool first_rank_here(const std::string& cluster) {
  return cluster.empty() || first_rank_here(cluster::parse(cluster));
}

// The command line that this process was started with; the program is the same file.
std::vector<std::string> own_command(const std::string& program) {
  std::vector<std::string> argv;
  const std::string line = read_file("/proc/self/cmdline");
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = line.find('\0', begin);
    argv.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  argv[0] = program;
  return argv;
}

}  // namespace

bool checks_input(const std::string& cluster) {
  return is_rank() ? starter() != Starter::kHere : first_rank_here(cluster);
}

bool checks_output(const std::string& cluster) {
  if (!is_rank()) return first_rank_here(cluster);
  if (starter() == Starter::kOverSsh)
    return rendezvous::launch_environment(transport::mpi_available).job.rank == 0;
  return starter() == Starter::kOther;
}

bool is_restarted() { return std::getenv("ENTRAIN_RESTART") != nullptr; }

void end_on_signals(job::Context& context) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (std::signal(signal, [](int caught) { last_signal = caught; }) == SIG_IGN)
      std::signal(signal, SIG_IGN);
  }
  context.stop = std::make_shared<job::StopRequest>(context, [] { return static_cast<int>(last_signal); });
}

int run_on_ranks(const std::string& cluster, double timeout_s, const RemoteOptions& remote,
                 const std::function<int(job::Context&)>& work, int essential_rank, int restarts) {
  const rendezvous::LaunchEnvironment launch = rendezvous::launch_environment(transport::mpi_available);
  if (!launch.is_rank()) {
    const cluster::Cluster parsed = cluster::parse(cluster.empty() ? "local:1" : cluster);
    if (parsed.world() > 1 || !first_rank_here(parsed)) {
      warn_of_capacity(parsed);
      JobOptions options;
      options.timeout_s = timeout_s;
      options.essential_rank = essential_rank;
      options.restarts = restarts;
      options.remote = remote;
      ::setenv(kStarted, "1", 1);
      std::string self = "/proc/self/exe";
      if (parsed.kind == cluster::Kind::kHosts)
        self = std::filesystem::read_symlink(self);  // theirs is another
      return run_job(parsed, own_command(self), options);
    }
  }
  job::Context context = job::init(cluster);
  if (!launch.timeout_given) context.job.timeout_s = timeout_s;
  try {
    const int code = work(context);
    const int signal = context.stop_signal();
    return code == 0 && context.rank() == 0 && signal != 0 ? 128 + signal : code;
  } catch (const std::exception& e) {
    context.transport->close(reason_of(e));  // the others learn why
    throw;
  }
}

}  // namespace entrain::app
