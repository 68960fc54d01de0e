// The subcommands of `entrain pipeline` beside `plan`.
#pragma once

#include <string>

#include "verbs.h"

namespace entrain::app {

void add_pipeline_partition(CLI::App& parent, Action& action);
void add_pipeline_reach(CLI::App& parent, Action& action);

// Numbers that an optimizer holds for each weight: sgd 0, momentum 1, adam 2.
int optimizer_slots(const std::string& optimizer);

}  // namespace entrain::app
