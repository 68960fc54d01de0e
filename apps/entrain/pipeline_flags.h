// --pipeline and its settings, for verbs that train.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "entrain/pipeline/plan/pipeline.h"
#include "entrain/strategy/builders/request.h"

namespace entrain::app {

// What the command line said, to be laid over what a strategy file says.
struct PipelineFlags {
  std::vector<std::function<void(strategy::Pipeline&)>> applied;  // one a flag that was given
  std::vector<std::string> given;                                 // their names

  // Checked. A file that is asked for may hold a pipeline.
  strategy::Pipeline settings(const strategy::Request& request) const;
};

// `flags` outlives the verb's parsing.
void add_pipeline_options(CLI::App& verb, PipelineFlags& flags);

}  // namespace entrain::app
