#include "entrain/net/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "entrain/base/error.h"

namespace entrain::net {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Empty, with `error` set, when the name is unknown (as yet: some are made when their host starts).
AddressList look_up(const Endpoint& endpoint, int flags, int family, std::string& error) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(endpoint.address.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (code != 0)
    error = fmt::format("cannot resolve the address {}: {}", endpoint.text(), ::gai_strerror(code));
  return {found, ::freeaddrinfo};
}

AddressList resolve(const Endpoint& endpoint) {
  std::string error;
  AddressList addresses = look_up(endpoint, AI_PASSIVE, AF_UNSPEC, error);
  if (!addresses) fail("{}", error);
  return addresses;
}

void set_option(const Fd& socket, int level, int name, int value) {
  ::setsockopt(socket.get(), level, name, &value, sizeof value);  // best effort: old kernels lack some
}

Endpoint to_endpoint(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET6) {
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof text);
    return {text, ntohs(in6.sin6_port)};
  }
  const auto& in4 = reinterpret_cast<const sockaddr_in&>(address);
  ::inet_ntop(AF_INET, &in4.sin_addr, text, sizeof text);
  return {text, ntohs(in4.sin_port)};
}

bool wait_for(const Fd& socket, short events, Deadline deadline, std::string& error) {
  pollfd entry{socket.get(), events, 0};
  while (true) {
    const int n = ::poll(&entry, 1, deadline.left_ms());
    if (n > 0) return true;
    if (n < 0 && errno == EINTR) continue;
    error = n == 0 ? "no answer in time" : std::strerror(errno);
    return false;
  }
}

}  // namespace

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

std::string Endpoint::text() const {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

Endpoint parse_endpoint(const std::string& text, const std::string& field) {
  const size_t colon = text.rfind(':');
  Endpoint endpoint;
  if (colon != std::string::npos) {
    endpoint.address = text.substr(0, colon);
    const char* end = text.data() + text.size();
    const auto [rest, code] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
    if (code != std::errc() || rest != end) endpoint.port = -1;
  }
  if (endpoint.address.size() >= 2 && endpoint.address.front() == '[' && endpoint.address.back() == ']') {
    endpoint.address = endpoint.address.substr(1, endpoint.address.size() - 2);
  }
  if (endpoint.address.empty() || endpoint.port < 1 || endpoint.port > 65535) {
    bad_input("{} is \"{}\": it must be ADDRESS:PORT with a port of 1 to 65535", field, text);
  }
  return endpoint;
}

Fd listen_on(const Endpoint& endpoint) {
  const AddressList addresses = resolve(endpoint);
  const addrinfo& a = *addresses;
  Fd listener(::socket(a.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener) fail_errno("cannot create a socket");
  if (endpoint.port != 0) set_option(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(listener.get(), a.ai_addr, a.ai_addrlen) != 0 || ::listen(listener.get(), 1024) != 0) {
    fail_errno(fmt::format("cannot listen on {}", endpoint.text()));
  }
  return listener;
}

Fd accept_one(const Fd& listener) {
  return Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

Endpoint local_endpoint(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    fail_errno("cannot read a socket's own address");
  }
  return to_endpoint(address);
}

Endpoint remote_endpoint(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {"?", 0};
  return to_endpoint(address);
}

Fd connect_to(const Endpoint& endpoint, const std::string& bind_address, Deadline deadline,
              std::string& error) {
  // A name may have addresses of both families: what connects must be of the family it is bound to.
  const AddressList own =
      bind_address.empty() ? AddressList(nullptr, ::freeaddrinfo) : resolve({bind_address, 0});
  const AddressList addresses = look_up(endpoint, 0, own ? own->ai_family : AF_UNSPEC, error);
  if (!addresses) {
    errno = EHOSTUNREACH;
    return {};
  }
  const addrinfo& a = *addresses;
  Fd socket(::socket(a.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) fail_errno("cannot create a socket");
  if (own) {
    set_option(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    if (::bind(socket.get(), own->ai_addr, own->ai_addrlen) != 0) {
      fail_errno(fmt::format("cannot connect to {} from the address {}", endpoint.text(), bind_address));
    }
  }
  if (::connect(socket.get(), a.ai_addr, a.ai_addrlen) == 0) return socket;
  if (errno == EINPROGRESS) {
    if (!wait_for(socket, POLLOUT, deadline, error)) {
      errno = ETIMEDOUT;
      return {};
    }
    int code = 0;
    socklen_t size = sizeof code;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size);
    if (code == 0) return socket;
    errno = code;
  }
  error = std::strerror(errno);
  return {};
}

size_t raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) fail_errno("cannot read the limit of open files");
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

bool read_fully(const Fd& socket, void* data, size_t size, Deadline deadline, std::string& error) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = ::recv(socket.get(), at, size, 0);
    if (n > 0) {
      at += n, size -= static_cast<size_t>(n);
    } else if (n == 0) {
      error = "the connection was closed";
      return false;
    } else if (errno == EAGAIN) {
      if (!wait_for(socket, POLLIN, deadline, error)) return false;
    } else if (errno != EINTR) {
      error = std::strerror(errno);
      return false;
    }
  }
  return true;
}

bool write_fully(const Fd& socket, const void* data, size_t size, Deadline deadline, std::string& error) {
  auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::send(socket.get(), at, size, MSG_NOSIGNAL);
    if (n >= 0) {
      at += n, size -= static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      if (!wait_for(socket, POLLOUT, deadline, error)) return false;
    } else if (errno != EINTR) {
      error = std::strerror(errno);
      return false;
    }
  }
  return true;
}

void tune_for_messages(const Fd& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 128 * 1024);
  constexpr int kDay_ms = 24 * 3600 * 1000;
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kDay_ms);
}

}  // namespace entrain::net
