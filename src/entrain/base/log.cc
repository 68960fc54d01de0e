#include "entrain/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace entrain {

void init_logging(int rank) {
  static const auto logger = spdlog::stderr_color_mt("entrain");
  spdlog::set_default_logger(logger);
  spdlog::set_pattern(rank < 0 ? "%^%l%$ %v" : fmt::format("%^%l%$ [rank {}] %v", rank));
  spdlog::set_level(rank > 0 ? spdlog::level::warn : spdlog::level::info);
  if (const char* level = std::getenv("ENTRAIN_LOG")) spdlog::set_level(spdlog::level::from_str(level));
}

void write_log(LogLevel level, const std::string& line) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn};
  spdlog::log(kLevels[static_cast<int>(level)], "{}", line);
}

}  // namespace entrain
