// Numbers on the wire are little-endian, whatever the machine.
#pragma once

#include <cstdint>
#include <string>

namespace entrain::net {

template <typename Byte>
void store_le(Byte* at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) at[i] = static_cast<Byte>(value >> (8 * i) & 0xff);
}

template <typename Byte>
uint64_t load_le(const Byte* at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= uint64_t{static_cast<uint8_t>(at[i])} << (8 * i);
  return value;
}

inline void put_u32(std::string& out, uint32_t value) {
  char bytes[4];
  store_le(bytes, value, 4);
  out.append(bytes, 4);
}

inline uint32_t get_u32(const char* at) { return static_cast<uint32_t>(load_le(at, 4)); }

}  // namespace entrain::net
