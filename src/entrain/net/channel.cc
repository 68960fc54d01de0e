#include "entrain/net/channel.h"

#include <sys/socket.h>

namespace entrain::net {
namespace {

msghdr message_of(const iovec* pieces, int count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = static_cast<size_t>(count);
  return message;
}

}  // namespace

ssize_t PlainChannel::receive(const iovec* pieces, int count) {
  msghdr message = message_of(pieces, count);
  return ::recvmsg(fd_, &message, 0);
}

ssize_t PlainChannel::send(const iovec* pieces, int count) {
  const msghdr message = message_of(pieces, count);
  return ::sendmsg(fd_, &message, MSG_NOSIGNAL);
}

}  // namespace entrain::net
