// float32 numbers as 16-bit ones on the wire. Sums stay in float32: only what travels is rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "entrain/collective/reduce.h"
#include "entrain/transport/transport.h"

namespace entrain::collective {

// out[i] = wire(values[i]), and values[i] = out[i]: who sends a sum keeps what the others get, so that all
// ranks hold the same bits. Rounds to nearest even. float16 ends at 65504: finite values that would round to
// infinity are cut to +-65504, so that one large gradient does not make all parameters NaN; infinity and NaN
// stay what they are. Returns how many were cut.
// Requires: `wire` is kFloat16 or kBFloat16, `out` holds 2 bytes for each 4 of `values`.
size_t encode(Type wire, const std::vector<transport::Bytes>& values, std::byte* out);

// values[i] = from[i], or values[i] += from[i]. Requires: as encode().
void decode(Type wire, transport::ConstBytes from, const std::vector<transport::Bytes>& values);
void decode_add(Type wire, transport::ConstBytes from, const std::vector<transport::Bytes>& values);

// Error feedback of a cast: with x = value + error,  value = wire(x),  error = x - value. Where that is not
// finite, the error becomes 0: a batch that is skipped must not spoil the next. Returns how many were cut.
size_t feed_back(Type wire, transport::Bytes values, transport::Bytes errors);

// Adds to what this process has cut since its start; the first time, a warning says so and names `what`.
// Thread-safe.
void count_saturated(size_t values, std::string_view what);
uint64_t saturated_values();

}  // namespace entrain::collective
