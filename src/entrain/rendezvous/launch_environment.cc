#include "entrain/rendezvous/launch_environment.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "entrain/base/error.h"
#include "entrain/base/sha256.h"
#include "entrain/net/socket.h"
#include "entrain/rendezvous/host_list.h"

namespace entrain::rendezvous {
namespace {

constexpr int kMostRanks = 1 << 20;

// The variables, read with errors that name them.
class VariableReader {
 public:
  explicit VariableReader(const Variables& variables) : variables_(variables) {}

  // Empty counts as not set, as shells leave it.
  bool has(const std::string& name) const { return !get(name).empty(); }
  std::string get(const std::string& name, const std::string& fallback = "") const {
    const auto found = variables_.find(name);
    return found == variables_.end() || found->second.empty() ? fallback : found->second;
  }
  std::string required(const std::string& name, const std::string& because) const {
    if (!has(name)) bad_input("{} is not set, but {} is: a rank needs both", name, because);
    return get(name);
  }
  template <typename Number>
  Number number(const std::string& name, Number low, Number high) const {
    const std::string text = get(name);
    Number value{};
    const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || rest != text.data() + text.size() || !(value >= low && value <= high)) {
      bad_input("{} is \"{}\": it must be a number from {} to {}", name, text, low, high);
    }
    return value;
  }
  template <typename Number>
  Number number(const std::string& name, Number fallback, Number low, Number high) const {
    return has(name) ? number(name, low, high) : fallback;
  }

 private:
  const Variables& variables_;
};

void read_rank(const VariableReader& in, const std::string& rank, const std::string& world,
               JobEnvironment& job) {
  in.required(world, rank);
  in.required(rank, world);
  job.world = in.number(world, 1, kMostRanks);
  job.rank = in.number(rank, 0, job.world - 1);
}

// A port that ranks can agree on without talking: below those that systems hand out (from 32768 on).
int port_from(const std::string& text) {
  const Digest digest = sha256(text);
  return 15000 + (digest[0] * 256 + digest[1]) % 15000;
}

// Of the secret that the user gives, if any, and of what the launcher gives (the job's id, the address),
// which tells jobs apart: a rank of another job, or a program that came to the wrong port, is turned away.
std::string token_from(const VariableReader& in, Launcher launcher, const std::string& job_id,
                       const std::string& rendezvous) {
  const Digest digest =
      hmac_sha256(in.get("ENTRAIN_TOKEN"), fmt::format("{}\n{}\n{}", name_of(launcher), job_id, rendezvous));
  return hex(digest);
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address.starts_with("127.") || address == "::1";
}

// The interface to listen on, for ranks that meet at `address`. A rank that listens on every one of them is
// known to the others by the address it came from.
std::string bind_for(const std::string& address) {
  if (address == "::1") return address;
  if (is_loopback(address)) return "127.0.0.1";
  return address.find(':') == std::string::npos ? "0.0.0.0" : "::";
}

// Where the ranks of another launcher meet: as ENTRAIN_RENDEZVOUS says, else at `found`.
void meet_at(const VariableReader& in, const net::Endpoint& found, const std::string& job_id,
             LaunchEnvironment& launch) {
  JobEnvironment& job = launch.job;
  net::Endpoint place = found;
  if (place.address == "localhost") place.address = "127.0.0.1";  // it may mean ::1 as well
  job.rendezvous = in.get("ENTRAIN_RENDEZVOUS", place.text());
  const net::Endpoint endpoint = net::parse_endpoint(job.rendezvous, "ENTRAIN_RENDEZVOUS");
  job.token = token_from(in, launch.launcher, job_id, job.rendezvous);
  job.bind_address = bind_for(endpoint.address);
  job.serve = job.rank == 0;
}

void read_entrain(const VariableReader& in, LaunchEnvironment& launch) {
  JobEnvironment& job = launch.job;
  read_rank(in, "ENTRAIN_RANK", "ENTRAIN_WORLD", job);
  job.rendezvous = in.required("ENTRAIN_RENDEZVOUS", "ENTRAIN_RANK");
  net::parse_endpoint(job.rendezvous, "ENTRAIN_RENDEZVOUS");
  job.token = in.required("ENTRAIN_TOKEN", "ENTRAIN_RANK");
}

net::Endpoint master(const VariableReader& in, const std::string& because) {
  net::Endpoint endpoint;
  endpoint.address = in.required("MASTER_ADDR", because);
  in.required("MASTER_PORT", because);
  endpoint.port = in.number("MASTER_PORT", 1, 65535);
  return endpoint;
}

void read_torchrun(const VariableReader& in, LaunchEnvironment& launch) {
  read_rank(in, "RANK", "WORLD_SIZE", launch.job);
  launch.local_rank = in.number("LOCAL_RANK", -1, 0, launch.job.world - 1);
  net::Endpoint endpoint;
  if (!in.has("ENTRAIN_RENDEZVOUS")) {
    endpoint = master(in, "RANK");
    // torchrun's agent keeps a store of its own at this port; the neighbour is as free as any.
    if (in.get("TORCHELASTIC_USE_AGENT_STORE") == "True") endpoint.port += endpoint.port < 65535 ? 1 : -1;
  }
  meet_at(in, endpoint, in.get("TORCHELASTIC_RUN_ID"), launch);
}

// Over MPI nothing more is needed. For tcp: MASTER_ADDR and MASTER_PORT (mpirun -x), ENTRAIN_RENDEZVOUS, or,
// when all ranks are on one host, a port that the job's id gives.
void read_open_mpi(const VariableReader& in, LaunchEnvironment& launch) {
  JobEnvironment& job = launch.job;
  read_rank(in, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", job);
  launch.local_rank = in.number("OMPI_COMM_WORLD_LOCAL_RANK", -1, 0, job.world - 1);
  if (launch.backend == Backend::kMpi) return;
  const std::string job_id = in.get("OMPI_MCA_orte_precondition_transports", in.get("PMIX_NAMESPACE"));
  net::Endpoint endpoint;
  if (in.has("MASTER_ADDR")) {
    endpoint = master(in, "MASTER_ADDR");
  } else if (in.number("OMPI_COMM_WORLD_LOCAL_SIZE", 0, 1, kMostRanks) == job.world && !job_id.empty()) {
    endpoint = {"127.0.0.1", port_from(job_id)};
  } else if (!in.has("ENTRAIN_RENDEZVOUS")) {
    bad_input(
        "MASTER_ADDR is not set: mpirun does not say where the ranks of several hosts can meet over tcp; "
        "give "
        "it rank 0's host and a free port (-x MASTER_ADDR=... -x MASTER_PORT=...), or use "
        "ENTRAIN_TRANSPORT=mpi");
  }
  meet_at(in, endpoint, job_id, launch);
}

void read_slurm(const VariableReader& in, LaunchEnvironment& launch) {
  JobEnvironment& job = launch.job;
  const std::string world = in.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  read_rank(in, "SLURM_PROCID", world, job);
  launch.local_rank = in.number("SLURM_LOCALID", -1, 0, job.world - 1);
  if (launch.backend == Backend::kMpi) return;
  const std::string job_id =
      fmt::format("{}.{}", in.required("SLURM_JOB_ID", "SLURM_PROCID"), in.get("SLURM_STEP_ID"));
  const bool step = in.has("SLURM_STEP_NODELIST");
  const std::string list = step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const auto hosts = parse_host_list(in.required(list, "SLURM_PROCID"), list);
  // Names often mean the loopback address on their own host, which is right only when there is no other.
  meet_at(in, {hosts.size() == 1 ? "127.0.0.1" : hosts.front(), port_from(job_id)}, job_id, launch);
}

Launcher find_launcher(const VariableReader& in) {
  if (in.has("ENTRAIN_RANK")) return Launcher::kEntrain;
  // RANK alone is too plain a name to mean torchrun.
  if (in.has("RANK") && in.has("WORLD_SIZE")) return Launcher::kTorchrun;
  if (in.has("OMPI_COMM_WORLD_RANK")) return Launcher::kOpenMpi;
  // A batch script has SLURM_PROCID=0 and all of SLURM_NTASKS, but is no rank: only steps of srun have these.
  // Nor is a shell in a step of one task (srun --pty bash): what is started there may have ranks of its own.
  const bool step = in.has("SLURM_STEP_ID") || in.has("SLURM_STEP_NODELIST");
  const bool alone = in.get("SLURM_STEP_NUM_TASKS", in.get("SLURM_NTASKS")) == "1";
  if (in.has("SLURM_PROCID") && step && !alone) return Launcher::kSlurm;
  return Launcher::kNone;
}

bool runs_mpi(const VariableReader& in, Launcher launcher) {
  return launcher == Launcher::kOpenMpi || (launcher == Launcher::kSlurm && in.has("PMIX_RANK"));
}

Backend find_backend(const VariableReader& in, Launcher launcher,
                     const std::function<bool()>& mpi_available) {
  const std::string wanted = in.get("ENTRAIN_TRANSPORT");
  if (wanted == "tcp") return Backend::kTcp;
  if (wanted == "mpi") return Backend::kMpi;
  if (!wanted.empty()) bad_input("ENTRAIN_TRANSPORT is \"{}\": allowed are tcp and mpi", wanted);
  return runs_mpi(in, launcher) && mpi_available() ? Backend::kMpi : Backend::kTcp;
}

// torchrun, Slurm and mpirun give ranks no secret: without ENTRAIN_TOKEN anybody who knows the job's id could
// join. On loopback that is this machine's users; beyond it the ranks need a secret.
void check_token(const VariableReader& in, const std::function<bool()>& mpi_available,
                 LaunchEnvironment& launch) {
  constexpr size_t kLeastLength = 16;
  const size_t length = in.get("ENTRAIN_TOKEN").size();
  launch.weak_token = length > 0 && length < kLeastLength;
  const bool over_tcp = launch.backend == Backend::kTcp && launch.job.world > 1;
  if (length > 0 || !over_tcp || is_loopback(launch.job.bind_address)) return;
  if (runs_mpi(in, launch.launcher) && mpi_available()) {
    launch.token_over_mpi = true;
    return;
  }
  bad_input(
      "ENTRAIN_TOKEN is not set: {} gives ranks of several hosts no secret, and whoever reaches their ports "
      "could "
      "join; give all ranks the same one, made by: openssl rand -hex 16",
      name_of(launch.launcher));
}

}  // namespace

std::string name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone:
      return "none";
    case Launcher::kEntrain:
      return "entrain launch";
    case Launcher::kTorchrun:
      return "torchrun";
    case Launcher::kOpenMpi:
      return "Open MPI (mpirun)";
    case Launcher::kSlurm:
      return "Slurm (srun)";
  }
  return "?";
}

std::string name_of(Backend backend) { return backend == Backend::kMpi ? "mpi" : "tcp"; }

LaunchEnvironment describe_launch(const Variables& variables, const std::function<bool()>& mpi_available) {
  const VariableReader in(variables);
  LaunchEnvironment launch;
  launch.launcher = find_launcher(in);
  if (!launch.is_rank()) return launch;
  launch.backend = find_backend(in, launch.launcher, mpi_available);
  switch (launch.launcher) {
    case Launcher::kEntrain:
      read_entrain(in, launch);
      break;
    case Launcher::kTorchrun:
      read_torchrun(in, launch);
      break;
    case Launcher::kOpenMpi:
      read_open_mpi(in, launch);
      break;
    case Launcher::kSlurm:
      read_slurm(in, launch);
      break;
    case Launcher::kNone:
      break;
  }
  JobEnvironment& job = launch.job;
  job.bind_address = in.get("ENTRAIN_BIND", job.bind_address);
  job.shape_gbit = in.number("ENTRAIN_SHAPE_GBIT", job.shape_gbit, 0.0, 1e6);
  job.timeout_s = in.number("ENTRAIN_TIMEOUT", job.timeout_s, 0.001, 1e6);
  launch.timeout_given = in.has("ENTRAIN_TIMEOUT");
  job.encryption = parse_encryption(in.get("ENTRAIN_TLS"));
  check_token(in, mpi_available, launch);
  if (in.has("ENTRAIN_SERVE")) job.serve = in.get("ENTRAIN_SERVE") == "1";
  return launch;
}

LaunchEnvironment launch_environment(const std::function<bool()>& mpi_available) {
  Variables variables;
  for (char** each = environ; *each; ++each) {
    const std::string_view text = *each;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return describe_launch(variables, mpi_available);
}

std::vector<int> ranks_by_host(const std::vector<int>& local_ranks) {
  if (std::ranges::find(local_ranks, -1) != local_ranks.end()) return {static_cast<int>(local_ranks.size())};
  std::vector<int> hosts;
  for (const int local : local_ranks) {
    if (local == 0) hosts.push_back(0);
    if (hosts.empty() || local != hosts.back()) return {};
    ++hosts.back();
  }
  return hosts;
}

}  // namespace entrain::rendezvous
