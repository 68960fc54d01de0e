#include "entrain/transport/mpi/mpi_transport.h"

#include "entrain/transport/mpi/mpi_rank.h"

namespace entrain::transport {

bool mpi_built() { return true; }

std::unique_ptr<Transport> connect_mpi(const JobEnvironment& job) {
  return std::make_unique<MpiRank>(job.rank, job.world);
}

}  // namespace entrain::transport
