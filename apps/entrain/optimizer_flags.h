// --optimizer and its settings, for verbs that train.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "entrain/strategy/builders/request.h"
#include "entrain/strategy/optimizer.h"

namespace entrain::app {

// What the command line said, to be laid over what a strategy file says.
struct OptimizerFlags {
  std::string name;                                                // --optimizer
  std::vector<std::function<void(strategy::Optimizer&)>> applied;  // one a flag that was given
  std::vector<std::string> apart_only;  // of those, what synchronous rules have not

  // Checked. A file that is asked for may hold an optimizer.
  strategy::Optimizer settings(const strategy::Request& request) const;
};

// `flags` outlives the verb's parsing.
void add_optimizer_options(CLI::App& verb, OptimizerFlags& flags);

}  // namespace entrain::app
