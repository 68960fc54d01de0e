// Where a command takes a builder's name or a strategy file: which of them a text is.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>

#include "entrain/strategy/builders/registry.h"

namespace entrain::app {

inline bool is_strategy_file(const std::string& name) {
  const auto builders = strategy::names();
  return std::find(builders.begin(), builders.end(), name) == builders.end() && std::filesystem::exists(name);
}

}  // namespace entrain::app
