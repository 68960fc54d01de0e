// One authenticated connection between every two ranks.
#pragma once

#include <vector>

#include "entrain/transport/rendezvous.h"
#include "entrain/transport/tcp/socket.h"

namespace entrain::transport {

struct Peer {
  Fd socket;  // empty for the rank itself
  Endpoint endpoint;
};

// Listens on job.bind_address, meets the other ranks at the rendezvous, connects to all lower ranks
// and accepts all higher ones; the listener is closed on return. In rank order. Throws PeerError
// naming ranks that are missing or dead, or Error.
std::vector<Peer> connect_mesh(const JobEnvironment& job, Deadline deadline);

}  // namespace entrain::transport
