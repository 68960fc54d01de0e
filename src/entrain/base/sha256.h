// SHA-256 (FIPS 180-4) and HMAC (RFC 2104): proof of the job token, and checksums.
// Our own few lines, so that the smallest build needs no TLS library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace entrain {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  // Uses the processor's SHA instructions where it has them (about five times as fast), unless `portable`.
  explicit Sha256(bool portable = false);

  Sha256& update(std::span<const uint8_t> data);
  Sha256& update(std::string_view data);
  Digest finish();

 private:
  using Compress = void (*)(uint32_t* state, const uint8_t* data, size_t blocks);

  Compress compress_;
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_{};
  size_t pending_size_ = 0;
  uint64_t total_ = 0;
};

Digest sha256(std::string_view data);
Digest hmac_sha256(std::string_view key, std::string_view message);

// Compares in constant time, so that a guess learns nothing from how long it took.
bool equal_digests(const Digest& a, const Digest& b);

std::string hex(std::span<const uint8_t> bytes);

// From the kernel's generator; throws Error when it has none.
std::string random_bytes(size_t count);

}  // namespace entrain
