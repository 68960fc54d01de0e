// The hand-made strategies by name: `--strategy NAME|FILE`, with `+COMPRESSOR` behind it when gradients are
// to be compressed: "allreduce+fp16", "best.json+powersgd:8".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "entrain/strategy/builders/builders.h"
#include "entrain/strategy/compression.h"

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

// "ps+fp16" in its parts. Without a compressor's name behind the last '+' there is none: files may hold one.
struct Named {
  std::string base;                        // a builder's name, or a file
  std::optional<Compression> compression;  // unset: as it is; "+none" takes one away
  bool is_builder() const;
};
Named parse_name(const std::string& name_or_file);

// Throws InputError unless it is a builder's name or a strategy file that can be read: what can be told
// before there are G and D.
void check_name(const std::string& name_or_file);

// A builder's name, or a strategy file (.json, else binary), which is loaded and validated. Throws
// InputError.
Strategy load_or_build(const std::string& name_or_file, const graph::Graph& graph,
                       const cluster::Cluster& cluster, uint64_t seed = 0);

}  // namespace entrain::strategy
