#include "entrain/strategy/builders/request.h"

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/stored.h"
#include "entrain/strategy/validate.h"

namespace entrain::strategy {
namespace {

bool looks_like_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.extension() == ".json" || path.extension() == ".pb" || std::filesystem::exists(path, ignored);
}

// Servers only cast: another compressor that nothing takes would be no more than a name.
void check_all_reduced(const Strategy& strategy, const Compression& compression) {
  if (compression.compressor == Compressor::kNone || is_cast(compression.compressor)) return;
  for (const VariableConfig& variable : strategy.variables) {
    for (const Part& part : variable.parts) {
      const auto* all_reduce = std::get_if<AllReduce>(&part.synchronizer);
      if (all_reduce != nullptr && all_reduce->compressor == compression.compressor) return;
    }
  }
  bad_input("{}: no dense gradient is all-reduced in it, and servers only cast; allowed: fp16, fp16-ef, bf16",
            strategy.id);
}

// An error says which of the texts that were given it is about.
void check_valid(const std::string& text, const Strategy& strategy, const graph::Graph& graph,
                 const cluster::Cluster& cluster) {
  try {
    validate(strategy, graph, cluster);
  } catch (const InputError& error) {
    bad_input("{}: {}", text, error.what());
  }
}

}  // namespace

// Without a compressor's name behind the last '+' there is none: files may have one in their names.
Request::Request(const std::string& text) : text_(text), name_(text) {
  const size_t plus = text.rfind('+');
  if (plus != std::string::npos && is_compressor(std::string_view(text).substr(plus + 1))) {
    name_ = text.substr(0, plus);
    compressor_ = text.substr(plus + 1);
    compression_ = parse_compression(compressor_);
  }
  if (strategy::is_builder(name_)) return;
  file_ = name_;
  if (!looks_like_file(file_)) refuse_name(name_, ", or a strategy file (.json, .pb)");
  std::error_code ignored;
  if (!std::filesystem::exists(file_, ignored)) return;
  stored_ = load(file_);
  tuned_for_ = load_tuned_for(file_);
}

void Request::check() const {
  if (!is_builder() && !stored_) load(file_);  // says that it is missing
}

Strategy Request::made_for(const graph::Graph& graph, const cluster::Cluster& cluster, uint64_t seed) const {
  check();
  Strategy strategy = is_builder() ? build(name_, graph, cluster, seed) : *stored_;
  if (compression_) {
    strategy = compressed(std::move(strategy), graph, *compression_);
    strategy.id = text_;
    check_all_reduced(strategy, *compression_);
  }
  check_valid(text_, strategy, graph, cluster);
  return strategy;
}

Strategy Request::made_for_part(const graph::Graph& part, const cluster::Cluster& cluster,
                                uint64_t seed) const {
  if (is_builder()) return made_for(part, cluster, seed);
  check();
  Strategy strategy = *stored_;
  if (compression_) strategy = compressed(std::move(strategy), part, *compression_);
  std::erase_if(strategy.variables, [&](const auto& variable) { return part.find(variable.name) < 0; });
  check_valid(text_, strategy, part, cluster);
  return strategy;
}

}  // namespace entrain::strategy
