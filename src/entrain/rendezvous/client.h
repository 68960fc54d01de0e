// A rank's side of the rendezvous.
#pragma once

#include <vector>

#include "entrain/net/socket.h"
#include "entrain/rendezvous/job_environment.h"

namespace entrain::rendezvous {

// Registers `listening` and waits for all other ranks: where each of them listens, in rank order.
// Throws PeerError naming the ranks that did not come by `deadline`, or Error.
std::vector<net::Endpoint> meet(const JobEnvironment& job, net::Endpoint listening, Deadline deadline);

}  // namespace entrain::rendezvous
