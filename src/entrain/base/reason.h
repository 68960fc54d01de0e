// What went wrong, as people read it.
#pragma once

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>

namespace entrain {

// The error's message in one line. libtorch's errors end with 20 to 60 lines of addresses, which are left
// out.
inline std::string reason_of(const std::exception& error) {
  constexpr std::string_view kBacktrace = "\nException raised from ";  // as c10::Error begins it
  std::string text = error.what();
  text.resize(std::min(text.find(kBacktrace), text.size()));
  text.resize(text.find_last_not_of(" \n") + 1);  // npos + 1 is 0
  std::string line;
  for (const char letter : text) {
    const char shown = letter == '\n' || letter == '\t' ? ' ' : letter;
    if (shown == ' ' && line.ends_with(' ')) continue;
    line += shown;
  }
  return line;
}

}  // namespace entrain
