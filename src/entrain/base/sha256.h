// SHA-256 and HMAC of OpenSSL: proof of the job token, and checksums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's

namespace entrain {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();

  Sha256& update(std::span<const uint8_t> data);
  Sha256& update(std::string_view data);
  Digest finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

Digest sha256(std::string_view data);
Digest hmac_sha256(std::string_view key, std::string_view message);

// Compares in constant time, so that a guess learns nothing from how long it took.
bool equal_digests(const Digest& a, const Digest& b);

std::string hex(std::span<const uint8_t> bytes);

// From the kernel's generator; throws Error when it has none.
std::string random_bytes(size_t count);

}  // namespace entrain
