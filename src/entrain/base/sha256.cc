#include "entrain/base/sha256.h"

#include <sys/random.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "entrain/base/error.h"

namespace entrain {
namespace {

constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// Adds `blocks` blocks of 64 bytes to the state.
void compress_portable(uint32_t* state, const uint8_t* p, size_t blocks) {
  for (; blocks > 0; --blocks, p += 64) {
    std::array<uint32_t, 64> w;
    for (int i = 0; i < 16; ++i) {
      w[i] = uint32_t{p[4 * i]} << 24 | uint32_t{p[4 * i + 1]} << 16 | uint32_t{p[4 * i + 2]} << 8 |
             p[4 * i + 3];
    }
    for (int i = 16; i < 64; ++i) {
      const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
      const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<uint32_t, 8> add = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) state[i] += add[i];
  }
}

#if defined(__x86_64__)
// The same with the SHA extensions. They want the state as the vectors (a b e f) and (c d g h), and do two
// rounds per instruction; w holds the last 16 words of the message schedule, four per vector.
__attribute__((target("sha,sse4.1,ssse3"))) void compress_x86(uint32_t* state, const uint8_t* p,
                                                              size_t blocks) {
  auto* vectors = reinterpret_cast<__m128i*>(state);
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(vectors), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(vectors + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; blocks > 0; --blocks, p += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i) {
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + i), big_endian);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {  // four rounds each
      __m128i& now = w[i % 4];
      const __m128i next = w[(i + 1) % 4], third = w[(i + 2) % 4], last = w[(i + 3) % 4];
      if (i >= 4) {
        const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(now, next), _mm_alignr_epi8(last, third, 4));
        now = _mm_sha256msg2_epu32(sum, last);
      }
      const auto* constants = reinterpret_cast<const __m128i*>(kRound.data()) + i;
      const __m128i input = _mm_add_epi32(now, _mm_loadu_si128(constants));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, input);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(input, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(vectors, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(vectors + 1, _mm_alignr_epi8(dchg, feba, 8));
}

// CPUID leaf 7 bit 29 of EBX: the SHA extensions; every processor with them has SSE4.1.
bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
}
#endif

}  // namespace

Sha256::Sha256([[maybe_unused]] bool portable) : compress_(compress_portable) {
#if defined(__x86_64__)
  static const bool fast = has_sha_instructions();
  if (fast && !portable) compress_ = compress_x86;
#endif
}

Sha256& Sha256::update(std::span<const uint8_t> data) {
  total_ += data.size();
  while (!data.empty()) {
    if (pending_size_ == 0 && data.size() >= 64) {
      const size_t blocks = data.size() / 64;
      compress_(state_.data(), data.data(), blocks);
      data = data.subspan(64 * blocks);
      continue;
    }
    const size_t n = std::min(data.size(), 64 - pending_size_);
    std::memcpy(pending_.data() + pending_size_, data.data(), n);
    pending_size_ += n;
    data = data.subspan(n);
    if (pending_size_ == 64) {
      compress_(state_.data(), pending_.data(), 1);
      pending_size_ = 0;
    }
  }
  return *this;
}

Sha256& Sha256::update(std::string_view data) {
  return update({reinterpret_cast<const uint8_t*>(data.data()), data.size()});
}

Digest Sha256::finish() {
  const uint64_t bits = total_ * 8;
  std::array<uint8_t, 72> tail{0x80};
  const size_t zeros = (pending_size_ < 56 ? 56 : 120) - pending_size_;
  for (int i = 0; i < 8; ++i) tail[zeros + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(std::span<const uint8_t>(tail.data(), zeros + 8));
  Digest digest;
  for (int i = 0; i < 32; ++i) digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest sha256(std::string_view data) { return Sha256().update(data).finish(); }

Digest hmac_sha256(std::string_view key, std::string_view message) {
  std::array<uint8_t, 64> inner{}, outer{};
  if (key.size() > 64) {
    const Digest short_key = sha256(key);
    std::copy(short_key.begin(), short_key.end(), inner.begin());
  } else {
    std::copy(key.begin(), key.end(), inner.begin());
  }
  outer = inner;
  for (auto& byte : inner) byte ^= 0x36;
  for (auto& byte : outer) byte ^= 0x5c;
  const Digest digest = Sha256().update(inner).update(message).finish();
  return Sha256().update(outer).update(digest).finish();
}

bool equal_digests(const Digest& a, const Digest& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
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
