// How a process learns that it is a rank, and of which job: from the environment of whoever started it.
//
//   launcher          found by                               rendezvous
//   entrain launch    ENTRAIN_RANK                           ENTRAIN_RENDEZVOUS, served by the launcher
//   torchrun          RANK and WORLD_SIZE                    MASTER_ADDR:MASTER_PORT, served by rank 0
//   Open MPI          OMPI_COMM_WORLD_RANK                   MPI's own; for tcp see below
//   Slurm             SLURM_PROCID in a step of srun         the step's first host, served by rank 0
//
// The first that is found wins, in this order: entrain's own, then what a user puts inside of the others
// (torchrun is started by mpirun and srun, mpirun within Slurm), so that the innermost is obeyed.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "entrain/rendezvous/job_environment.h"

namespace entrain::rendezvous {

enum class Launcher { kNone, kEntrain, kTorchrun, kOpenMpi, kSlurm };
std::string name_of(Launcher launcher);  // "Slurm (srun)"

enum class Backend { kTcp, kMpi };
std::string name_of(Backend backend);  // "tcp"

struct LaunchEnvironment {
  Launcher launcher = Launcher::kNone;
  JobEnvironment job;  // of no use where there is no launcher
  Backend backend = Backend::kTcp;
  int local_rank = -1;         // among the ranks of this host; -1: not told
  bool timeout_given = false;  // by ENTRAIN_TIMEOUT
  bool weak_token = false;     // ENTRAIN_TOKEN is short enough to be guessed
  // The token is not secret, and ranks listen beyond loopback: rank 0 makes one, and MPI brings it to the
  // others.
  bool token_over_mpi = false;

  bool is_rank() const { return launcher != Launcher::kNone; }
};

using Variables = std::map<std::string, std::string>;

// What the variables say. ENTRAIN_TRANSPORT names the engine; without it mpi is chosen under mpirun, and
// under srun with a PMI that Open MPI speaks (PMIX_RANK), where it is available: `mpi_available` is asked
// only then. ENTRAIN_BIND, ENTRAIN_SHAPE_GBIT, ENTRAIN_TIMEOUT, ENTRAIN_RENDEZVOUS, ENTRAIN_TOKEN and
// ENTRAIN_SERVE are obeyed under every launcher.
// Throws InputError naming a variable that is missing or malformed; ENTRAIN_TOKEN, where ranks would listen
// beyond loopback without a secret.
LaunchEnvironment describe_launch(const Variables& variables, const std::function<bool()>& mpi_available);

// The same of this process. `mpi_available` is transport/mpi's, passed in because the transports lie above
// this folder.
LaunchEnvironment launch_environment(const std::function<bool()>& mpi_available);

// How many ranks each host has, from every rank's local rank, in rank order: a host begins where the count
// starts again at 0. None is known to have one: all on one host. Empty when the ranks of a host do not follow
// each other (srun --distribution=cyclic, mpirun --map-by node).
std::vector<int> ranks_by_host(const std::vector<int>& local_ranks);

}  // namespace entrain::rendezvous
