// The verbs of the program. A verb is one file (VERB_verb.cc) and one line in verbs.cc. The file's namespace
// is app::VERB_verb, since several are compiled as one (ENTRAIN_UNITY) and each has its own Command and
// run().
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace entrain::app {

// What the chosen verb does once the command line is read; returns the exit code.
using Action = std::function<int()>;

// Adds the subcommand to `app`; when it is chosen, parsing sets `action`.
using AddVerb = void (*)(CLI::App& app, Action& action);

void add_verbs(CLI::App& app, Action& action);

}  // namespace entrain::app
