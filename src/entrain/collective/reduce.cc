#include "entrain/collective/reduce.h"

#include "entrain/base/error.h"
#include "entrain/collective/half.h"

namespace entrain::collective {
namespace {

template <typename T>
void add_numbers(std::byte* into, const std::byte* from, size_t bytes) {
  T* a = reinterpret_cast<T*>(into);
  const T* b = reinterpret_cast<const T*>(from);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) a[i] += b[i];
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
