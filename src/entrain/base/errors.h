// The kinds of failure a user can meet.
#pragma once

#include <stdexcept>
#include <string>

namespace entrain {

// Something failed while running: a peer died, a deadline passed, a disk is full.
// The program prints the message on one line and exits with 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The user gave something unusable. The message names the field, its value and what
// is allowed. The program prints it on one line and exits with 2.
class InputError : public Error {
 public:
  using Error::Error;
};

// A rank of this job is dead, slow, cut off or disagrees. `peer` is the rank at fault.
class PeerError : public Error {
 public:
  PeerError(int peer, const std::string& what) : Error(what), peer_(peer) {}
  int peer() const { return peer_; }

 private:
  int peer_;
};

}  // namespace entrain
