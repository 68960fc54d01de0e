// What carries the bytes of a connection: the socket itself, or TLS over it (tls.h).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include "entrain/net/socket.h"

namespace entrain::net {

// Over a non-blocking socket, which it does not own. Used by one thread at a time. Both calls give what
// recvmsg and sendmsg would: bytes, or -1 and errno (EAGAIN: the socket must be waited for).
class Channel {
 public:
  virtual ~Channel() = default;

  // Into `pieces`; 0 at the end of file. EBADMSG: the bytes are not what the peer has sent.
  virtual ssize_t receive(const iovec* pieces, int count) = 0;
  // Whether more can be received though the socket itself may have nothing: epoll does not tell.
  virtual bool holds_received() const { return false; }

  // From `pieces`, whose memory is not needed any more for what was taken. No pieces: what it holds is sent
  // on.
  virtual ssize_t send(const iovec* pieces, int count) = 0;
  // Whether taken bytes still wait for the socket: call send() when that is writable.
  virtual bool holds_unsent() const { return false; }
};

class PlainChannel final : public Channel {
 public:
  explicit PlainChannel(const Fd& socket) : fd_(socket.get()) {}
  ssize_t receive(const iovec* pieces, int count) override;
  ssize_t send(const iovec* pieces, int count) override;

 private:
  int fd_;
};

}  // namespace entrain::net
