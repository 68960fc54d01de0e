#include "entrain/base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "entrain/base/error.h"

namespace entrain {
namespace {

void require(bool done) {
  if (!done) fail("OpenSSL cannot make a SHA-256");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { ::EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(::EVP_MD_CTX_new()) {
  require(context_ && ::EVP_DigestInit_ex(context_.get(), ::EVP_sha256(), nullptr) == 1);
}

Sha256& Sha256::update(std::span<const uint8_t> data) {
  require(::EVP_DigestUpdate(context_.get(), data.data(), data.size()) == 1);
  return *this;
}

Sha256& Sha256::update(std::string_view data) {
  return update({reinterpret_cast<const uint8_t*>(data.data()), data.size()});
}

Digest Sha256::finish() {
  Digest digest;
  require(::EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
  return digest;
}

Digest sha256(std::string_view data) { return Sha256().update(data).finish(); }

Digest hmac_sha256(std::string_view key, std::string_view message) {
  Digest digest;
  require(::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
                 reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest.data(),
                 nullptr) != nullptr);
  return digest;
}

bool equal_digests(const Digest& a, const Digest& b) {
  return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string hex(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  if (::getrandom(bytes.data(), count, 0) != static_cast<ssize_t>(count))
    fail_errno("cannot read random bytes");
  return bytes;
}

}  // namespace entrain
