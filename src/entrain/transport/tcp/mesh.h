// One authenticated connection between every two ranks.
#pragma once

#include <memory>
#include <vector>

#include "entrain/net/channel.h"
#include "entrain/net/socket.h"
#include "entrain/rendezvous/job_environment.h"

namespace entrain::transport {

struct Peer {
  net::Fd socket;  // empty for the rank itself
  net::Endpoint endpoint;
  std::unique_ptr<net::Channel> channel;  // over the socket; empty: the socket itself
};

// Listens on job.bind_address, meets the other ranks at the rendezvous, connects to all lower ranks
// and meanwhile accepts all higher ones; the listener is closed on return. In rank order. Throws PeerError
// naming ranks that are missing or dead, or Error.
std::vector<Peer> connect_mesh(const rendezvous::JobEnvironment& job, Deadline deadline);

}  // namespace entrain::transport
