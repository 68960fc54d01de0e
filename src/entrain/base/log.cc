#include "entrain/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

#include "entrain/base/progress.h"

namespace entrain {
namespace {

// https://no-color.org: set and not empty.
spdlog::color_mode color_mode() {
  const char* wish = std::getenv("NO_COLOR");
  return wish != nullptr && *wish != '\0' ? spdlog::color_mode::never : spdlog::color_mode::automatic;
}

}  // namespace

void init_logging(int rank) {
  static const auto logger = spdlog::stderr_color_mt("entrain", color_mode());
  spdlog::set_default_logger(logger);
  const std::string who = rank < 0 ? "" : fmt::format("[rank {}] ", rank);
  spdlog::set_pattern(fmt::format("{}%^%l%$ {}%v", before_stderr_line(), who));
  spdlog::set_level(rank > 0 ? spdlog::level::warn : spdlog::level::info);
  if (const char* level = std::getenv("ENTRAIN_LOG")) spdlog::set_level(spdlog::level::from_str(level));
}

void write_log(LogLevel level, const std::string& line) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn};
  spdlog::log(kLevels[static_cast<int>(level)], "{}", line);
}

}  // namespace entrain
