#include "entrain/collective/cast.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>

#include "entrain/base/log.h"
#include "entrain/collective/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace entrain::collective {
namespace {

// One kind of 16-bit number: how a run of n is made, read, and added. Those that make some return how many
// they cut.
struct Kernels {
  size_t (*round)(float* values, uint16_t* out, size_t n);
  void (*read)(const uint16_t* from, float* values, size_t n);
  void (*add)(const uint16_t* from, float* values, size_t n);
  size_t (*feed_back)(float* values, float* errors, size_t n);
};

// x - sent, or 0 where that is not finite. No branch, so that loops over it are vectorised.
float error_of(float x, float sent) {
  const float error = x - sent;
  return std::fabs(error) <= std::numeric_limits<float>::max() ? error : 0;
}

// Adds 1 to `cut` where it cuts.
uint16_t float_to_float16_cut(float value, size_t& cut) {
  const uint16_t half = float_to_float16(value);
  if ((half & 0x7fff) != 0x7c00 || std::isinf(value)) return half;
  ++cut;
  return half - 1;  // the largest finite number of this sign
}
// bfloat16 has the range of float32.
uint16_t float_to_bfloat16_cut(float value, size_t&) { return float_to_bfloat16(value); }

template <float (*kUp)(uint16_t), uint16_t (*kDown)(float, size_t&)>
struct Portable {
  static size_t round(float* values, uint16_t* out, size_t n) {
    size_t cut = 0;
    for (size_t i = 0; i < n; ++i) values[i] = kUp(out[i] = kDown(values[i], cut));
    return cut;
  }
  static void read(const uint16_t* from, float* values, size_t n) {
    for (size_t i = 0; i < n; ++i) values[i] = kUp(from[i]);
  }
  static void add(const uint16_t* from, float* values, size_t n) {
    for (size_t i = 0; i < n; ++i) values[i] += kUp(from[i]);
  }
  static size_t feed_back(float* values, float* errors, size_t n) {
    size_t cut = 0;
    for (size_t i = 0; i < n; ++i) {
      const float x = values[i] + errors[i];
      values[i] = kUp(kDown(x, cut));
      errors[i] = error_of(x, values[i]);
    }
    return cut;
  }
  static constexpr Kernels kKernels{round, read, add, feed_back};
};
using Bf16 = Portable<bfloat16_to_float, float_to_bfloat16_cut>;
using Fp16 = Portable<float16_to_float, float_to_float16_cut>;

#if defined(__x86_64__)
// Every x86 processor since 2013 converts 8 at a time. The bits are those of the portable form, which takes
// over where one of the 8 became infinity or NaN.
#define ENTRAIN_F16C __attribute__((target("avx,f16c")))
struct Fp16x8 {
  ENTRAIN_F16C static bool finite(__m128i half) {
    const __m128i exponent = _mm_set1_epi16(0x7c00);
    return _mm_movemask_epi8(_mm_cmpeq_epi16(_mm_and_si128(half, exponent), exponent)) == 0;
  }
  ENTRAIN_F16C static size_t round(float* values, uint16_t* out, size_t n) {
    size_t i = 0, cut = 0;
    for (; i + 8 <= n; i += 8) {
      const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT);
      if (!finite(half)) [[unlikely]] {
        cut += Fp16::round(values + i, out + i, 8);
        continue;
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), half);
      _mm256_storeu_ps(values + i, _mm256_cvtph_ps(half));
    }
    return cut + Fp16::round(values + i, out + i, n - i);
  }
  ENTRAIN_F16C static __m256 load(const uint16_t* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  ENTRAIN_F16C static void read(const uint16_t* from, float* values, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(values + i, load(from + i));
    Fp16::read(from + i, values + i, n - i);
  }
  ENTRAIN_F16C static void add(const uint16_t* from, float* values, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
      _mm256_storeu_ps(values + i, _mm256_add_ps(_mm256_loadu_ps(values + i), load(from + i)));
    }
    Fp16::add(from + i, values + i, n - i);
  }
  ENTRAIN_F16C static size_t feed_back(float* values, float* errors, size_t n) {
    size_t i = 0, cut = 0;
    for (; i + 8 <= n; i += 8) {
      const __m256 x = _mm256_add_ps(_mm256_loadu_ps(values + i), _mm256_loadu_ps(errors + i));
      const __m128i half = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
      if (!finite(half)) [[unlikely]] {
        cut += Fp16::feed_back(values + i, errors + i, 8);
        continue;
      }
      const __m256 sent = _mm256_cvtph_ps(half);
      _mm256_storeu_ps(values + i, sent);
      _mm256_storeu_ps(errors + i, _mm256_sub_ps(x, sent));
    }
    return cut + Fp16::feed_back(values + i, errors + i, n - i);
  }
  static constexpr Kernels kKernels{round, read, add, feed_back};
};
#endif

const Kernels& kernels_of(Type wire) {
  if (wire == Type::kBFloat16) return Bf16::kKernels;
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("avx2");  // they all have f16c, which clang cannot ask for
  if (fast) return Fp16x8::kKernels;
#endif
  return Fp16::kKernels;
}

float* floats(transport::Bytes bytes) { return reinterpret_cast<float*>(bytes.data()); }
size_t count(transport::Bytes bytes) { return bytes.size() / sizeof(float); }

std::atomic<uint64_t> saturated = 0;

}  // namespace

size_t encode(Type wire, const std::vector<transport::Bytes>& values, std::byte* out) {
  const Kernels& kernels = kernels_of(wire);
  auto* halves = reinterpret_cast<uint16_t*>(out);
  size_t cut = 0;
  for (const auto& piece : values) {
    cut += kernels.round(floats(piece), halves, count(piece));
    halves += count(piece);
  }
  return cut;
}

void decode(Type wire, transport::ConstBytes from, const std::vector<transport::Bytes>& values) {
  const Kernels& kernels = kernels_of(wire);
  const auto* halves = reinterpret_cast<const uint16_t*>(from.data());
  for (const auto& piece : values) {
    kernels.read(halves, floats(piece), count(piece));
    halves += count(piece);
  }
}

void decode_add(Type wire, transport::ConstBytes from, const std::vector<transport::Bytes>& values) {
  const Kernels& kernels = kernels_of(wire);
  const auto* halves = reinterpret_cast<const uint16_t*>(from.data());
  for (const auto& piece : values) {
    kernels.add(halves, floats(piece), count(piece));
    halves += count(piece);
  }
}

size_t feed_back(Type wire, transport::Bytes values, transport::Bytes errors) {
  return kernels_of(wire).feed_back(floats(values), floats(errors), count(values));
}

void count_saturated(size_t values, std::string_view what) {
  if (values == 0 || saturated.fetch_add(values, std::memory_order_relaxed) > 0) return;
  log_warn(
      "{}: {} values beyond the range of float16 were cut to 65504 (said once; +bf16 has the range of "
      "float32)",
      what, values);
}

uint64_t saturated_values() { return saturated.load(std::memory_order_relaxed); }

}  // namespace entrain::collective
