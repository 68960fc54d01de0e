// Numbers for people, and from them.
#pragma once

#include <cstdint>
#include <string>

namespace entrain {

std::string format_bytes(double bytes);      // "134.2 MB" (powers of 1000, as links count)
std::string format_seconds(double seconds);  // "1.61 s", "320 ms", "45 us", "2 h 03 min"

// "16GiB", "500 MB", "1.5GB", "4096": bytes. `field` is what the user filled in, for the InputError.
int64_t parse_bytes(const std::string& field, const std::string& text);

// "1gbit", "300mbit": bytes per second, above 0. InputError as above.
double parse_rate(const std::string& field, const std::string& text);

}  // namespace entrain
