// What a fuzz target is: a reader of one format, called with any bytes. It may refuse them by InputError with
// a reason; anything else that leaves it, and any finding of a sanitizer, is a defect.
//
//   FUZZ_TARGET(text) { cluster::cluster_from_hostfile(text, "hosts"); }
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "entrain/base/errors.h"
#include "entrain/base/reason.h"

namespace entrain::fuzz {

void read(const std::string& text);  // each target's own

inline void refused(const InputError& error) {
  if (!reason_of(error).empty()) return;
  std::fprintf(stderr, "no reason is given\n");
  std::abort();
}

}  // namespace entrain::fuzz

#define FUZZ_TARGET(text)                                                   \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    try {                                                                   \
      entrain::fuzz::read({reinterpret_cast<const char*>(data), size});     \
    } catch (const entrain::InputError& error) {                            \
      entrain::fuzz::refused(error);                                        \
    }                                                                       \
    return 0;                                                               \
  }                                                                         \
  void entrain::fuzz::read(const std::string& text)
