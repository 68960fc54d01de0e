// What a verb of the program prints, where a test runs it in its own process.
#pragma once

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <string>

#include "entrain/base/error.h"

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

using AddVerb = void (*)(CLI::App&, std::function<int()>& action);

// The same for a command line of one of these verbs.
inline VerbOutput run_verb(std::initializer_list<AddVerb> verbs, const std::string& arguments) {
  CLI::App app;
  std::function<int()> action;
  for (const AddVerb add : verbs) add(app, action);
  app.parse(arguments);
  return output_of(action);
}

// Why bad input is refused.
inline std::string refusal_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const InputError& error) {
    return error.what();
  }
  return "was accepted";
}

}  // namespace entrain::testing
