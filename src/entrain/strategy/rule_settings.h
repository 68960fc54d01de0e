// From a rule as programs write it to the optimizer part of a strategy.
#pragma once

#include "entrain/strategy/optimizer.h"
#include "entrain/strategy/rules.h"

namespace entrain::strategy {

// The settings of a job under this rule. Throws InputError for a value that the rule cannot have.
Optimizer settings_of(const Rule& rule);

}  // namespace entrain::strategy
