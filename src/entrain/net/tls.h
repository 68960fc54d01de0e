// TLS 1.3 between two ranks. The job token is the key that both know beforehand (an external pre-shared key,
// RFC 8446 section 2.2), so there are no certificates; ephemeral Diffie-Hellman keys keep what was said
// secret from whoever learns the token later.
//
//   rank 3 dials                                   rank 1 listens
//   hello: I know the key "rank 3 to rank 1 of 8" ─▶
//                                                 ◀─ hello, finished      AES-128-GCM from here on
//   finished ─▶
//
// Key and identity name both ranks and who dialled, so that nothing said on one connection fits another, nor
// the other way. A record that was changed, left out, repeated or reordered ends the connection. How a
// connection ends in order is said by a frame (goodbye), which is encrypted as all others: an end of file
// alone is a death.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "entrain/base/clock.h"
#include "entrain/net/channel.h"
#include "entrain/net/handshake.h"

namespace entrain::net {

enum class Side { kDialled, kListened };

class TlsChannel final : public Channel {
 public:
  // `who`: the rank that dialled, and whom. Over a socket on which the handshake of handshake.h is done.
  TlsChannel(const Fd& socket, Side side, const Introduction& who, const std::string& token);
  ~TlsChannel() override;

  // One step of TLS's handshake. Returns whether it is done; throws Error when it has failed. `wanted` is
  // what to poll the socket for.
  bool shake_hands(short& wanted);

  ssize_t receive(const iovec* pieces, int count) override;
  bool holds_received() const override;
  ssize_t send(const iovec* pieces, int count) override;
  bool holds_unsent() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Brings all of them through their handshakes at the same time, since the other ranks do so in an order of
// their own. Throws PeerError naming the first that fails or is not done by `deadline`.
struct Handshaking {
  TlsChannel* channel;
  const Fd* socket;
  int peer;
};
void shake_hands(std::vector<Handshaking> channels, Deadline deadline);

}  // namespace entrain::net
