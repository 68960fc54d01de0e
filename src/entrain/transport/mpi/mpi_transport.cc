#include "entrain/transport/mpi/mpi_transport.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "entrain/base/error.h"
#include "entrain/transport/mpi/mpi_rank.h"

namespace entrain::transport {
namespace {

using MakeRequests = Requests* (*)();

// Without a folder: where the system finds shared libraries, the program's run path first (its build or
// install folder).
std::string plugin() {
  const char* named = std::getenv("ENTRAIN_MPI_PLUGIN");
  return named && *named ? named : "libentrain_mpi.so";
}

// Null, and the reason, when it is not there. RTLD_GLOBAL: Open MPI's own plugins look for its symbols there.
MakeRequests load_plugin(std::string& reason) {
  void* handle = dlopen(plugin().c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* entry = handle ? dlsym(handle, kMpiPluginEntry) : nullptr;
  if (!entry) {
    const char* error = dlerror();
    reason = error ? error : "unknown";
  }
  return reinterpret_cast<MakeRequests>(entry);
}

std::unique_ptr<Requests> load_requests() {
  std::string reason;
  const MakeRequests make = load_plugin(reason);
  if (!make) {
    bad_input(
        "the mpi transport needs {} ({}). It is in Debian package entrain-mpi, and is built where "
        "libopenmpi-dev is "
        "installed; ENTRAIN_MPI_PLUGIN may name the file. Without it: ENTRAIN_TRANSPORT=tcp",
        plugin(), reason);
  }
  return std::unique_ptr<Requests>(make());
}

}  // namespace

bool mpi_available() {
  std::string reason;
  return load_plugin(reason) != nullptr;
}

std::unique_ptr<Transport> connect_mpi(const rendezvous::JobEnvironment& job) {
  return std::make_unique<MpiRank>(job.rank, job.world, load_requests());
}

}  // namespace entrain::transport
