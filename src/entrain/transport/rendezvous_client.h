// A rank's side of the rendezvous.
#pragma once

#include <vector>

#include "entrain/transport/rendezvous.h"
#include "entrain/transport/tcp/socket.h"

namespace entrain::transport {

// Registers `listening` and waits for all other ranks: where each of them listens, in rank order.
// Throws PeerError naming the ranks that did not come by `deadline`, or Error.
std::vector<Endpoint> meet(const JobEnvironment& job, Endpoint listening, Deadline deadline);

}  // namespace entrain::transport
