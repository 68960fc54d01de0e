// How errors are thrown: with a message in fmt's format.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "entrain/base/errors.h"  // IWYU pragma: export

namespace entrain {

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void bad_input(fmt::format_string<Args...> format, Args&&... args) {
  throw InputError(fmt::format(format, std::forward<Args>(args)...));
}

// Throws Error "WHAT: strerror(errno)".
[[noreturn]] void fail_errno(const std::string& what);

}  // namespace entrain
