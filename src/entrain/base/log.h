// Logging goes to stderr, never to stdout: stdout belongs to the result (`--json`).
#pragma once

#include <fmt/format.h>

#include <string>

namespace entrain {

// Called once by main() and by `init`. `rank` < 0: a process without a rank.
// Level from ENTRAIN_LOG (trace, debug, info, warn, error), default info; ranks other
// than 0 default to warn, so that one job prints one story.
void init_logging(int rank);

enum class LogLevel { kDebug, kInfo, kWarn };
void write_log(LogLevel level, const std::string& line);

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  write_log(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  write_log(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  write_log(LogLevel::kWarn, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace entrain
