// What is wrong with a command line, in one line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace entrain::app {

// `error`: what parse() of `app` has thrown. A flag that nobody knows is named first, with the one it may
// have been meant for: a missing required flag is often that very one, mistyped.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace entrain::app
