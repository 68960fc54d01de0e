// Numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace entrain {

std::string format_bytes(double bytes);      // "134.2 MB" (powers of 1000, as links count)
std::string format_seconds(double seconds);  // "1.61 s", "320 ms", "45 us", "2 h 03 min"

}  // namespace entrain
