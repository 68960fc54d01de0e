// The hand-made strategies by name: `--strategy NAME|FILE`.
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

// Throws InputError unless it is a builder's name or a strategy file that can be read: what can be told
// before there are G and D.
void check_name(const std::string& name_or_file);

// A builder's name, or a strategy file (.json, else binary), which is loaded and validated. Throws
// InputError.
Strategy load_or_build(const std::string& name_or_file, const graph::Graph& graph,
                       const cluster::Cluster& cluster, uint64_t seed = 0);

}  // namespace entrain::strategy
