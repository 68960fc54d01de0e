// Element-wise sums of received bytes into a buffer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "entrain/transport/transport.h"

namespace entrain::collective {

enum class Type { kFloat32, kFloat64, kFloat16, kBFloat16 };

// From G's names: "float32", ...; throws InputError for any other.
Type type_from(std::string_view name);
int64_t size_of(Type type);

// into[i] += from[i]. Requires: equal total size, pieces aligned to the type.
// float16 and bfloat16 add in float32 and round to nearest even.
void add(Type type, const std::vector<transport::Bytes>& into, transport::ConstBytes from);

}  // namespace entrain::collective
