#include "entrain/transport/tcp/mesh.h"

#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/net/handshake.h"
#include "entrain/net/tls.h"
#include "entrain/rendezvous/client.h"

namespace entrain::transport {
namespace {

constexpr size_t kFilesBesideSockets = 64;  // the program's own

// Every rank listens before it registers, so a refused connection means that the peer has died.
net::Fd dial(const rendezvous::JobEnvironment& job, int peer, const net::Endpoint& endpoint,
             Deadline deadline) {
  try {
    return net::reach(endpoint, job.bind_address, {peer, job.rank, job.world, job.encryption}, job.token,
                      net::Refused::kGiveUp, deadline, fmt::format("rank {} at {}", peer, endpoint.text()));
  } catch (const Error& e) {
    throw PeerError(peer, e.what());
  }
}

// A rank that has tried again has given its first connection up: the last one counts.
void accept_higher_ranks(const rendezvous::JobEnvironment& job, net::HandshakeListener& handshakes,
                         std::vector<Peer>& peers, Deadline deadline, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
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
    constexpr int kStopSeen_ms = 50;
    ::poll(entries.data(), entries.size(), std::min({wait_ms, deadline.left_ms(), kStopSeen_ms}));
    handshakes.serve([&](net::Fd socket, int rank, int world) {
      if (world != job.world || rank <= job.rank || rank >= job.world) {
        log_warn("rank {} dropped a misplaced connection of rank {}", job.rank, rank);
        return;
      }
      peers[rank].socket = std::move(socket);
    });
  }
}

// Dials the lower ranks and accepts the higher ones at the same time: nobody waits for a rank that still
// waits for others.
void connect_all(const rendezvous::JobEnvironment& job, net::HandshakeListener& handshakes,
                 std::vector<Peer>& peers, Deadline deadline) {
  std::exception_ptr failure;
  std::jthread acceptor([&](const std::stop_token& stop) {
    try {
      accept_higher_ranks(job, handshakes, peers, deadline, stop);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  for (int rank = 0; rank < job.rank; ++rank) {
    peers[rank].socket = dial(job, rank, peers[rank].endpoint, deadline);
  }
  acceptor.join();
  if (failure) std::rethrow_exception(failure);
}

void encrypt(const rendezvous::JobEnvironment& job, std::vector<Peer>& peers, Deadline deadline) {
  std::vector<net::Handshaking> handshakes;
  for (int rank = 0; rank < job.world; ++rank) {
    Peer& peer = peers[rank];
    if (!peer.socket || !net::encrypts(job.encryption, peer.socket)) continue;
    const auto side = rank < job.rank ? net::Side::kDialled : net::Side::kListened;
    const net::Introduction who{std::min(rank, job.rank), std::max(rank, job.rank), job.world};
    auto channel = std::make_unique<net::TlsChannel>(peer.socket, side, who, job.token);
    handshakes.push_back({channel.get(), &peer.socket, rank});
    peer.channel = std::move(channel);
  }
  net::shake_hands(std::move(handshakes), deadline);
}

}  // namespace

std::vector<Peer> connect_mesh(const rendezvous::JobEnvironment& job, Deadline deadline) {
  std::vector<Peer> peers(static_cast<size_t>(job.world));
  if (job.world == 1) return peers;
  if (const size_t files = net::raise_file_limit(); files < peers.size() + kFilesBesideSockets) {
    fail("rank {} may open {} files and needs {} for a world of {} ranks: raise the limit (ulimit -n)",
         job.rank, files, peers.size() + kFilesBesideSockets, job.world);
  }
  net::HandshakeListener handshakes(net::listen_on({job.bind_address, 0}), job.rank, job.world, job.token,
                                    job.encryption);
  const auto endpoints =
      rendezvous::meet(job, {job.bind_address, net::local_endpoint(handshakes.listener()).port}, deadline);
  for (int rank = 0; rank < job.world; ++rank) peers[rank].endpoint = endpoints[rank];
  connect_all(job, handshakes, peers, deadline);
  for (const Peer& peer : peers) {
    if (peer.socket) net::tune_for_messages(peer.socket);
  }
  encrypt(job, peers, deadline);
  return peers;
}

}  // namespace entrain::transport
