// The manual page and the bash completion, made from the verbs and flags themselves so that they cannot be
// wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace entrain::app {

// entrain(1), in roff's man macros: the program, then every verb with its flags.
std::string manual_page(const CLI::App& app, const std::string& version);

// A script for bash: completes verbs, their subcommands and long flags; file names where no flag begins.
std::string bash_completion(const CLI::App& app);

}  // namespace entrain::app
