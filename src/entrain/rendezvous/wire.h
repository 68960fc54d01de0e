// What a rank and the rendezvous say to each other once the token is proven.
//
//   rank:    registration   its address and port, fixed size
//   server:  notice*        {kind, a rank, size}, then `size` bytes
#pragma once

#include <cstring>
#include <string>

#include "entrain/base/error.h"
#include "entrain/net/socket.h"
#include "entrain/net/wire.h"

namespace entrain::rendezvous {

constexpr size_t kAddressSize = 256;  // a host's name has 253 characters at most (RFC 1035)
constexpr size_t kEntrySize = kAddressSize + 4;
constexpr size_t kNoticeHeaderSize = 12;
constexpr size_t kMaxReason = 4096;

enum class Notice : uint32_t {
  kWaiting = 1,  // text: how many ranks are here and which are missing; rank: the first of these
  kTable = 2,    // world entries in rank order
  kFailed = 3,   // text: why there will be no job
};

inline std::string encode_entry(const net::Endpoint& endpoint) {
  if (endpoint.address.size() >= kAddressSize) {
    bad_input("address {}: {} characters; allowed: at most {}", endpoint.address, endpoint.address.size(),
              kAddressSize - 1);
  }
  std::string entry = endpoint.address;
  entry.resize(kAddressSize, '\0');
  net::put_u32(entry, static_cast<uint32_t>(endpoint.port));
  return entry;
}

inline net::Endpoint decode_entry(const char* entry) {
  return {std::string(entry, ::strnlen(entry, kAddressSize)),
          static_cast<int>(net::get_u32(entry + kAddressSize) & 0xffff)};
}

}  // namespace entrain::rendezvous
