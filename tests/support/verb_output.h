// What a verb of the program prints, where a test runs it in its own process.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>

namespace entrain::testing {

struct VerbOutput {
  int code;
  std::string text;  // on stdout
};

// Throws what the verb throws.
inline VerbOutput output_of(const std::function<int()>& verb) {
  ::testing::internal::CaptureStdout();
  int code = 0;
  try {
    code = verb();
  } catch (...) {
    ::testing::internal::GetCapturedStdout();
    throw;
  }
  std::fflush(stdout);
  return {code, ::testing::internal::GetCapturedStdout()};
}

}  // namespace entrain::testing
