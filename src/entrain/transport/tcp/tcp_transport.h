// The embedded default transport: TCP between hosts, one I/O thread per rank.
#pragma once

#include <memory>

#include "entrain/rendezvous/job_environment.h"
#include "entrain/transport/transport.h"

namespace entrain::transport {

// Joins the job: rendezvous, then one authenticated connection to every other rank.
// Blocks until all are connected. Throws PeerError or Error within `deadline`, naming the ranks missing.
std::unique_ptr<Transport> connect_tcp(const rendezvous::JobEnvironment& job, Deadline deadline);

}  // namespace entrain::transport
