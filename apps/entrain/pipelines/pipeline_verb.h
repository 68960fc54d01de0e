// The subcommands of `entrain pipeline` beside `plan`.
#pragma once

#include <string>

#include "verbs.h"

namespace entrain::app {

namespace pipeline_partition {
void add_pipeline_partition(CLI::App& parent, Action& action);
}
namespace pipeline_reach {
void add_pipeline_reach(CLI::App& parent, Action& action);
}

// Numbers that an optimizer holds for each weight: sgd 0, momentum 1, adam 2.
inline int optimizer_slots(const std::string& optimizer) {
  return optimizer == "adam" ? 2 : optimizer == "momentum" ? 1 : 0;
}

}  // namespace entrain::app
