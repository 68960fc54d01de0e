#include "entrain/collective/reduce.h"

#include <bit>
#include <cstring>

#include "entrain/base/error.h"

namespace entrain::collective {
namespace {

template <typename T>
void add_numbers(std::byte* into, const std::byte* from, size_t bytes) {
  T* a = reinterpret_cast<T*>(into);
  const T* b = reinterpret_cast<const T*>(from);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) a[i] += b[i];
}

float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);  // keep NaN a NaN
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float float16_to_float(uint16_t h) {
  const uint32_t sign = uint32_t{h & 0x8000u} << 16;
  const uint32_t exponent = h >> 10 & 0x1f;
  uint32_t mantissa = h & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal
  return sign ? -magnitude : magnitude;
}

uint16_t float_to_float16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to 65536 or more
  if (magnitude < 0x38800000) {                       // subnormal: adding 0.5 rounds at bit 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
}

template <float (*kUp)(uint16_t), uint16_t (*kDown)(float)>
void add_halves(std::byte* into, const std::byte* from, size_t bytes) {
  auto* a = reinterpret_cast<uint16_t*>(into);
  const auto* b = reinterpret_cast<const uint16_t*>(from);
  for (size_t i = 0; i < bytes / 2; ++i) a[i] = kDown(kUp(a[i]) + kUp(b[i]));
}

}  // namespace

Type type_from(std::string_view name) {
  if (name == "float32") return Type::kFloat32;
  if (name == "float64") return Type::kFloat64;
  if (name == "float16") return Type::kFloat16;
  if (name == "bfloat16") return Type::kBFloat16;
  bad_input("dtype '{}' cannot be summed; allowed: float16, bfloat16, float32, float64", name);
}

int64_t size_of(Type type) {
  switch (type) {
    case Type::kFloat64:
      return 8;
    case Type::kFloat32:
      return 4;
    default:
      return 2;
  }
}

void add(Type type, const std::vector<transport::Bytes>& into, transport::ConstBytes from) {
  const std::byte* source = from.data();
  for (const transport::Bytes& piece : into) {
    switch (type) {
      case Type::kFloat32:
        add_numbers<float>(piece.data(), source, piece.size());
        break;
      case Type::kFloat64:
        add_numbers<double>(piece.data(), source, piece.size());
        break;
      case Type::kFloat16:
        add_halves<float16_to_float, float_to_float16>(piece.data(), source, piece.size());
        break;
      case Type::kBFloat16:
        add_halves<bfloat16_to_float, float_to_bfloat16>(piece.data(), source, piece.size());
        break;
    }
    source += piece.size();
  }
}

}  // namespace entrain::collective
