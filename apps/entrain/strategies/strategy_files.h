// Where a command takes a builder's name or a strategy file: which of them a text is.
#pragma once

#include <filesystem>
#include <string>

#include "entrain/strategy/builders/registry.h"

namespace entrain::app {

inline bool is_strategy_file(const std::string& name) {
  const strategy::Named named = strategy::parse_name(name);
  return !named.is_builder() && std::filesystem::exists(named.base);
}

}  // namespace entrain::app
