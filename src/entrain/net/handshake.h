// Proof of the job token, both ways, before anything a peer says is sized or stored.
//
//   server                                    client
//   challenge: nonce S  ────────────────────▶
//             ◀──────────────────────────────  hello: role, rank, world, whether it encrypts, nonce C,
//                                              HMAC(token, "client", all, S, C)
//   welcome: world, whether it encrypts, HMAC(token, "server", all, S, C) ──▶
//
// A hello with a wrong proof is answered by a welcome of zeros, so that a wrong token is told from a
// connection that broke. All three have a fixed size. The role and the direction are part of what is proven,
// so that a proof given in one place is worth nothing in another.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "entrain/base/clock.h"
#include "entrain/base/errors.h"
#include "entrain/net/socket.h"

namespace entrain::net {

constexpr int kRendezvousRank = -1;

// Which connections go on as TLS (tls.h). Between hosts: those whose two ends have different addresses.
enum class Encryption { kNever, kBetweenHosts, kAlways };
bool encrypts(Encryption encryption, const Fd& socket);

// Whom a client means to reach, and who it is.
struct Introduction {
  int server = kRendezvousRank;  // the rank that listens, or the rendezvous
  int rank = 0;
  int world = 1;
  Encryption encryption = Encryption::kNever;
};

// The connection broke, or nobody answered in time: another attempt may go better.
class Unanswered : public Error {
 public:
  using Error::Error;
};

// The client's side, blocking. Throws Error when one side does not know the other's token or counts another
// world size (naming both), or only one of them encrypts; Unanswered when there is no answer by `deadline`.
// `where` names the server in errors.
void introduce(const Fd& socket, const Introduction& who, const std::string& token, Deadline deadline,
               const std::string& where);

// Whether a server that refuses a connection may start later, or listens already and so has died.
enum class Refused { kTryAgain, kGiveUp };

// Connects to `endpoint` from the address `from` and introduces itself, again and again until `deadline`: the
// server may start later, its name may not resolve yet, and strangers may crowd its door. Throws as
// introduce().
Fd reach(const Endpoint& endpoint, const std::string& from, const Introduction& who, const std::string& token,
         Refused refused, Deadline deadline, const std::string& where);

// The server's side: accepts connections and hands over those that prove the token. Never blocks.
// Whoever is silent for 3 s or says anything else is dropped. Of unproven connections so many are held that
// all ranks may come at once; the oldest makes room, after a last look at what it has said, so that strangers
// keep nobody out.
class HandshakeListener {
 public:
  // Given the socket, the rank and the world its owner counts (which may differ from this one's: the
  // client has then been told, and hangs up). Both sides encrypt, or neither does.
  using OnProven = std::function<void(Fd socket, int rank, int world)>;

  // Raises the process's limit of open files: there will be a connection per rank.
  HandshakeListener(Fd listener, int server, int world, std::string token,
                    Encryption encryption = Encryption::kNever);

  const Fd& listener() const { return listener_; }
  // Appends what to poll, and gives the milliseconds until serve() must be called anyway.
  int watch(std::vector<pollfd>& entries) const;
  // Accepts some connections and reads what has come on all: call it until nothing is left to poll.
  void serve(const OnProven& on_proven);

 private:
  struct Pending {
    Fd socket;
    Deadline deadline;
    std::string nonce;
    std::string received;
  };
  enum class Progress { kWaits, kDropped, kProven };
  void accept_some();
  bool look_at(Pending& pending, const OnProven& on_proven);
  Progress advance(Pending& pending, int& rank, int& world);

  Fd listener_;
  int server_;
  int world_;
  std::string token_;
  Encryption encryption_;
  size_t most_pending_;
  std::list<Pending> pending_;  // oldest first
  bool warned_ = false;
};

}  // namespace entrain::net
