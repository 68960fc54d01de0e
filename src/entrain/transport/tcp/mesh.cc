#include "entrain/transport/tcp/mesh.h"

#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/net/handshake.h"
#include "entrain/rendezvous/client.h"

namespace entrain::transport {
namespace {

// Every rank listens before it registers, so a refused connection means that the peer has died.
// Dialling in rank order cannot lock up: rank 0 dials nobody, rank 1 only rank 0, and so on.
net::Fd dial(const rendezvous::JobEnvironment& job, int peer, const net::Endpoint& endpoint,
             Deadline deadline) {
  const std::string where = fmt::format("rank {} at {}", peer, endpoint.text());
  std::string error;
  net::Fd socket = net::connect_to(endpoint, job.bind_address, deadline, error);
  if (!socket) throw PeerError(peer, fmt::format("rank {} cannot connect to {}: {}", job.rank, where, error));
  try {
    net::introduce(socket, {peer, job.rank, job.world}, job.token, deadline, where);
  } catch (const Error& e) {
    throw PeerError(peer, e.what());
  }
  return socket;
}

void accept_higher_ranks(const rendezvous::JobEnvironment& job, net::HandshakeListener& handshakes,
                         std::vector<Peer>& peers, Deadline deadline) {
  while (true) {
    std::vector<int> missing;
    for (int rank = job.rank + 1; rank < job.world; ++rank) {
      if (!peers[rank].socket) missing.push_back(rank);
    }
    if (missing.empty()) return;
    if (deadline.passed()) {
      throw PeerError(missing.front(),
                      fmt::format("rank {} waited for a connection from rank {}, which did not come",
                                  job.rank, fmt::join(missing, ", ")));
    }
    std::vector<pollfd> entries;
    const int wait_ms = handshakes.watch(entries);
    ::poll(entries.data(), entries.size(), std::min(wait_ms, deadline.left_ms()));
    handshakes.serve([&](net::Fd socket, int rank, int world) {
      if (world != job.world || rank <= job.rank || rank >= job.world || peers[rank].socket) {
        log_warn("rank {} dropped a second or misplaced connection of rank {}", job.rank, rank);
        return;
      }
      peers[rank].socket = std::move(socket);
    });
  }
}

}  // namespace

std::vector<Peer> connect_mesh(const rendezvous::JobEnvironment& job, Deadline deadline) {
  std::vector<Peer> peers(static_cast<size_t>(job.world));
  if (job.world == 1) return peers;
  net::HandshakeListener handshakes(net::listen_on({job.bind_address, 0}), job.rank, job.world, job.token);
  const auto endpoints =
      rendezvous::meet(job, {job.bind_address, net::local_endpoint(handshakes.listener()).port}, deadline);
  for (int rank = 0; rank < job.world; ++rank) peers[rank].endpoint = endpoints[rank];
  for (int rank = 0; rank < job.rank; ++rank) peers[rank].socket = dial(job, rank, endpoints[rank], deadline);
  accept_higher_ranks(job, handshakes, peers, deadline);
  for (const Peer& peer : peers) {
    if (peer.socket) net::tune_for_messages(peer.socket);
  }
  return peers;
}

}  // namespace entrain::transport
