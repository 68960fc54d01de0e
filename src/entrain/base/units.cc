#include "entrain/base/units.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "entrain/base/error.h"

namespace entrain {
namespace {

struct Unit {
  std::string_view name;
  double worth;
};

constexpr Unit kByteUnits[] = {
    {"", 1},      {"b", 1},        {"kb", 1e3},        {"mb", 1e6},      {"gb", 1e9},
    {"tb", 1e12}, {"kib", 1024.0}, {"mib", 1048576.0}, {"gib", 1 << 30}, {"tib", 1099511627776.0}};
constexpr Unit kRateUnits[] = {{"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}, {"tbit", 1e12 / 8}};

// A finite number above 0 and one of `units`, in any case, with or without a space between.
template <size_t N>
std::optional<double> parse(const std::string& text, const Unit (&units)[N]) {
  double number = 0;
  const char* const end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || !std::isfinite(number) || number <= 0) return std::nullopt;
  if (at != end && *at == ' ') ++at;
  std::string name(at, end);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Unit& unit : units) {
    if (unit.name == name) return number * unit.worth;
  }
  return std::nullopt;
}

}  // namespace

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
  if (seconds < 999.5e-6) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 9.95e-3) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.995) return fmt::format("{:.2f} s", seconds);
  const long whole = std::lround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

int64_t parse_bytes(const std::string& field, const std::string& text) {
  const auto bytes = parse(text, kByteUnits);
  if (!bytes || *bytes < 1 || *bytes > 1e18) {
    bad_input("{} '{}': expected an amount of memory above 0, such as 16GiB, 512MiB or 16GB", field, text);
  }
  return static_cast<int64_t>(*bytes);
}

double parse_rate(const std::string& field, const std::string& text) {
  const auto rate = parse(text, kRateUnits);
  if (!rate) bad_input("{} '{}': expected a rate above 0, such as 1gbit or 300mbit", field, text);
  return *rate;
}

}  // namespace entrain
