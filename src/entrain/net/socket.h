// Sockets: owned descriptors, addresses, listening and connecting. IPv4 and IPv6.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "entrain/base/clock.h"

namespace entrain::net {

// A descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

struct Endpoint {
  std::string address;
  int port = 0;
  std::string text() const;  // "10.0.0.3:4411", "[fe80::1]:4411"
};

// From "address:port". Throws InputError, naming `field`, when it is not one.
Endpoint parse_endpoint(const std::string& text, const std::string& field);

// A non-blocking listener on exactly this address; port 0 lets the system choose. Throws Error
// naming address and port.
Fd listen_on(const Endpoint& endpoint);

// The next connection in the queue (non-blocking), or an empty Fd.
Fd accept_one(const Fd& listener);

Endpoint local_endpoint(const Fd& socket);
Endpoint remote_endpoint(const Fd& socket);

// Connects from `bind_address` (a non-blocking socket results). Returns an empty Fd, sets `error` and
// leaves the reason in errno when the name does not resolve, or the connection is refused or not answered
// by `deadline`; throws Error when it cannot even be tried.
Fd connect_to(const Endpoint& endpoint, const std::string& bind_address, Deadline deadline,
              std::string& error);

// As many descriptors as this process may have: raises the soft limit to the hard one. Returns that number.
size_t raise_file_limit();

// Exactly `size` bytes, waiting until `deadline`. False, with `error` set, on end of file or failure.
bool read_fully(const Fd& socket, void* data, size_t size, Deadline deadline, std::string& error);
bool write_fully(const Fd& socket, const void* data, size_t size, Deadline deadline, std::string& error);

// For a connection between ranks: no delay, late choice of what is sent next. The system sends again what is
// not acknowledged and gives nobody up: its limit also covers a full window, so a peer that pauses would be
// lost. Who is silent for too long is the transport's to judge.
void tune_for_messages(const Fd& socket);

}  // namespace entrain::net
