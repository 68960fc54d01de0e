// Beside how each variable is synchronized a strategy may say which shape, pipeline or rule a job has. Not
// everything that takes a strategy can do all of that, and nothing that it says is ignored.
#pragma once

#include <string_view>

#include "entrain/strategy/strategy.h"

namespace entrain::strategy {

enum class Parts {
  kVariables,          // how they are synchronized, and no more
  kVariablesAndShape,  // the caller looks at the shape itself
};

// Throws InputError naming `who` ("distribute()") and the first part of the strategy that is not in `run`.
void check_parts(const Strategy& strategy, std::string_view who, Parts run = Parts::kVariables);

}  // namespace entrain::strategy
