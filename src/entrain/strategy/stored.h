// The stored forms of a strategy: strategy.proto, binary (readable by and from AutoDist) or JSON.
// All functions are pure or touch one file; errors are InputError naming variable, field and allowed values.
// Whether the strategy fits a model and a cluster is another question: see validate.h.
#pragma once

#include <filesystem>
#include <string>

#include "entrain/strategy/strategy.h"

namespace entrain::strategy {

std::string to_json(const Strategy& strategy);  // protobuf's own mapping, defaults printed
std::string to_binary(const Strategy& strategy);
Strategy from_json(const std::string& text);
Strategy from_binary(const std::string& bytes);

// JSON when the path ends in .json, else binary. Errors name the file as well.
void save(const Strategy& strategy, const std::filesystem::path& path);
Strategy load(const std::filesystem::path& path);

}  // namespace entrain::strategy
