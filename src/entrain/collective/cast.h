// float32 numbers as 16-bit ones on the wire. Sums stay in float32: only what travels is rounded.
#pragma once

#include <vector>

#include "entrain/collective/reduce.h"
#include "entrain/transport/transport.h"

namespace entrain::collective {

// out[i] = wire(values[i]), and values[i] = out[i]: who sends a sum keeps what the others get, so that all
// ranks hold the same bits. Rounds to nearest even; float16 turns what is above 65504 into infinity.
// Requires: `wire` is kFloat16 or kBFloat16, `out` holds 2 bytes for each 4 of `values`.
void encode(Type wire, const std::vector<transport::Bytes>& values, std::byte* out);

// values[i] = from[i], or values[i] += from[i]. Requires: as encode().
void decode(Type wire, transport::ConstBytes from, const std::vector<transport::Bytes>& values);
void decode_add(Type wire, transport::ConstBytes from, const std::vector<transport::Bytes>& values);

// Error feedback of a cast: with x = value + error,  value = wire(x),  error = x - value.
void feed_back(Type wire, transport::Bytes values, transport::Bytes errors);

}  // namespace entrain::collective
