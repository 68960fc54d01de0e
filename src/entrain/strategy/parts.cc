#include "entrain/strategy/parts.h"

#include "entrain/base/error.h"

namespace entrain::strategy {

void check_parts(const Strategy& strategy, std::string_view who, Parts run) {
  const auto refuse = [&](const char* part) {
    bad_input("{}: the strategy {} has a part '{}', which would be ignored; allowed: a strategy without it",
              who, strategy.id, part);
  };
  if (strategy.optimizer) refuse("optimizer");
  if (strategy.pipeline && strategy.pipeline->there()) refuse("pipeline");
  if (strategy.shape && run != Parts::kVariablesAndShape) refuse("shape");
}

}  // namespace entrain::strategy
