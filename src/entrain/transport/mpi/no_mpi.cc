// In place of the mpi transport where Open MPI is not installed.
#include "entrain/base/error.h"
#include "entrain/transport/mpi/mpi_transport.h"

namespace entrain::transport {

bool mpi_built() { return false; }

std::unique_ptr<Transport> connect_mpi(const JobEnvironment&) {
  fail("this program was built without Open MPI: the mpi transport is not there");
}

}  // namespace entrain::transport
