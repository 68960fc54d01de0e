// The hand-made strategies by name. What users write, a name or a file, is read by request.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "entrain/strategy/builders/builders.h"

namespace entrain::strategy {

struct Builder {
  std::string_view name;
  std::string_view description;  // one line
  BuildFunction build;
};

std::span<const Builder> builders();
std::vector<std::string> names();

// (G, D) -> S. The result passes validate(). Same seed, same strategy. Throws InputError listing the
// names when `name` is none of them.
Strategy build(std::string_view name, const graph::Graph& graph, const cluster::Cluster& cluster,
               uint64_t seed = 0);

bool is_builder(std::string_view name);

// Throws InputError: `name` is unknown, these builders are allowed, and `also_allowed` (", or a file"); with
// a guess at what was meant.
[[noreturn]] void refuse_name(const std::string& name, const char* also_allowed = "");

}  // namespace entrain::strategy
