// --pipeline and its settings, for verbs that train.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "entrain/strategy/pipeline.h"

namespace entrain::app {

// What the command line said, to be laid over what a strategy file says.
struct PipelineFlags {
  std::vector<std::function<void(strategy::Pipeline&)>> applied;  // one a flag that was given
  std::vector<std::string> given;                                 // their names

  // Checked. `strategy`: a builder's name, or a file that may hold a pipeline.
  strategy::Pipeline settings(const std::string& strategy) const;
};

// `flags` outlives the verb's parsing.
void add_pipeline_options(CLI::App& verb, PipelineFlags& flags);

}  // namespace entrain::app
