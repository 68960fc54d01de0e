// Proof of the job token, both ways, before anything a peer says is sized or stored.
//
//   server                                    client
//   challenge: nonce S  ────────────────────▶
//             ◀──────────────────────────────  hello: role, rank, world, nonce C, HMAC(token, "client", all,
//             S, C)
//   welcome: verdict, HMAC(token, "server", all, S, C) ──▶
//
// All three have a fixed size. The role and the direction are part of what is proven, so that a
// proof given in one place is worth nothing in another.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "entrain/base/clock.h"
#include "entrain/net/socket.h"

namespace entrain::net {

constexpr int kRendezvousRank = -1;

// Whom a client means to reach, and who it is.
struct Introduction {
  int server = kRendezvousRank;  // the rank that listens, or the rendezvous
  int rank = 0;
  int world = 1;
};

// The client's side, blocking. Throws Error when the server does not know the token, counts another
// world size (naming both), or does not answer by `deadline`. `where` names the server in errors.
void introduce(const Fd& socket, const Introduction& who, const std::string& token, Deadline deadline,
               const std::string& where);

// The server's side: accepts connections and hands over those that prove the token. Never blocks.
// Whoever is silent for 3 s or says anything else is dropped; at most 64 unproven connections are
// held, the oldest making room, so that strangers keep nobody out.
class HandshakeListener {
 public:
  // Given the socket, the rank and the world its owner counts (which may differ from this one's: the
  // client has then been told, and hangs up).
  using OnProven = std::function<void(Fd socket, int rank, int world)>;

  HandshakeListener(Fd listener, int server, int world, std::string token);

  const Fd& listener() const { return listener_; }
  // Appends what to poll, and gives the milliseconds until serve() must be called anyway.
  int watch(std::vector<pollfd>& entries) const;
  void serve(const OnProven& on_proven);

 private:
  struct Pending {
    Fd socket;
    Deadline deadline;
    std::string nonce;
    std::string received;
  };
  enum class Progress { kWaits, kDropped, kProven };
  void accept_all();
  Progress advance(Pending& pending, int& rank, int& world);

  Fd listener_;
  int server_;
  int world_;
  std::string token_;
  std::list<Pending> pending_;
  bool warned_ = false;
};

}  // namespace entrain::net
