// The transport of MPI jobs: over Open MPI, and so over whatever fabric that knows.
#pragma once

#include <memory>

#include "entrain/rendezvous/job_environment.h"
#include "entrain/transport/transport.h"

namespace entrain::transport {

// Whether the plugin that calls MPI can be loaded, and Open MPI with it: the file that ENTRAIN_MPI_PLUGIN
// names, else libentrain_mpi.so in the program's run path or among the system's libraries.
bool mpi_available();

// Joins the MPI job of this process, by MPI_Init; its end is MPI_Finalize (README.md says how jobs that fail
// end). Once in a process: MPI cannot start again. Ranks that never come are the launcher's business: mpirun
// and srun end a job when one of its processes dies. Of `job` only rank and world are looked at.
// Throws InputError where there is no plugin, no MPI job, or another one than `job` says.
std::unique_ptr<Transport> connect_mpi(const rendezvous::JobEnvironment& job);

}  // namespace entrain::transport
