// The transport of MPI jobs: over Open MPI, and so over whatever fabric that knows.
#pragma once

#include <memory>

#include "entrain/transport/rendezvous.h"
#include "entrain/transport/transport.h"

namespace entrain::transport {

// Whether this build has it (Open MPI was there).
bool mpi_built();

// Joins the MPI job of this process, by MPI_Init; its end is MPI_Finalize (README.md says how jobs that fail
// end). Once in a process: MPI cannot start again. Ranks that never come are the launcher's business: mpirun
// and srun end a job when one of its processes dies. Of `job` only rank and world are looked at.
// Throws InputError where there is no MPI job, or another one than `job` says; Error in a build without MPI.
std::unique_ptr<Transport> connect_mpi(const JobEnvironment& job);

}  // namespace entrain::transport
