// Random numbers of one example: the same whoever computes it, in whatever batch.
#pragma once

#include <cstdint>

namespace entrain::data {

// Well mixed (SplitMix64's finalizer, once per part), so that neighbours have nothing in common.
inline uint64_t example_seed(uint64_t seed, int64_t step, int64_t example) {
  uint64_t z = seed;
  for (const auto part : {static_cast<uint64_t>(step), static_cast<uint64_t>(example)}) {
    z += (part + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
  }
  return z;
}

}  // namespace entrain::data
