// A rank's side of the rendezvous.
#pragma once

#include <vector>

#include "entrain/net/socket.h"
#include "entrain/rendezvous/job_environment.h"

namespace entrain::rendezvous {

// Registers `listening` and waits for all other ranks: where each of them listens, in rank order.
// Tries until `deadline`: the server may start later, and its name may not resolve yet.
// Throws PeerError naming the ranks that did not come in time, or Error.
std::vector<net::Endpoint> meet(const JobEnvironment& job, net::Endpoint listening, Deadline deadline);

}  // namespace entrain::rendezvous
