#include "entrain/base/units.h"

#include <fmt/format.h>

#include <cmath>

namespace entrain {

std::string format_bytes(double bytes) {
  const char* unit = "B";
  for (const char* larger : {"kB", "MB", "GB", "TB"}) {
    if (bytes < 1000) break;
    bytes /= 1000;
    unit = larger;
  }
  return fmt::format("{:.{}f} {}", bytes, unit[0] == 'B' ? 0 : 1, unit);
}

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.2f} s", seconds);
  const long whole = std::lround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace entrain
