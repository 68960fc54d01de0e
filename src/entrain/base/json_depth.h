// How deep a JSON text is nested. Whoever parses or prints it goes down that many calls, so that a text from
// outside has its depth checked first: 100 KB of "[" would end the process.
#pragma once

#include <string_view>

#include "entrain/base/error.h"

namespace entrain {

// Throws InputError where more than 64 objects and lists are inside one another (a data set's records have
// 8). Says nothing about whether the text is JSON.
inline void check_json_depth(std::string_view text) {
  constexpr int kMostDepth = 64;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMostDepth) bad_input("JSON is nested too deeply, allowed: {} levels", kMostDepth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

}  // namespace entrain
