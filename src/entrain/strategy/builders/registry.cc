#include "entrain/strategy/builders/registry.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>

#include "entrain/base/error.h"
#include "entrain/base/suggest.h"
#include "entrain/strategy/stored.h"
#include "entrain/strategy/validate.h"

namespace entrain::strategy {
namespace {

constexpr Builder kBuilders[] = {
    {"ps", "every variable on one parameter server, the fastest host", build_ps},
    {"ps-lb", "whole variables over all servers, balanced by bytes", build_ps_lb},
    {"partitioned-ps", "variables cut into equal shards over all servers", build_partitioned_ps},
    {"uneven-partitioned-ps", "variables cut into unequal shards over all servers",
     build_uneven_partitioned_ps},
    {"allreduce", "all-reduce, merged in ready order into 4 MB groups", build_allreduce},
    {"partitioned-allreduce", "variables cut along axis 0, each shard all-reduced",
     build_partitioned_allreduce},
    {"random-axis-allreduce", "variables cut along a random axis, each shard all-reduced",
     build_random_axis_allreduce},
    {"parallax", "sparse variables on parameter servers, dense ones all-reduced", build_parallax},
    {"byteps", "4 MB parts over all servers, by priority", build_byteps},
    {"ddp", "all-reduce in 25 MB buckets, the first of 1 MB", build_ddp},
};

const Builder* find(std::string_view name) {
  const auto found = std::find_if(std::begin(kBuilders), std::end(kBuilders),
                                  [&](const Builder& builder) { return builder.name == name; });
  return found == std::end(kBuilders) ? nullptr : found;
}

[[noreturn]] void refuse(const std::string& name, const char* also_allowed) {
  const std::string meant = did_you_mean(name, names());
  bad_input("unknown strategy \"{}\"{} {}: {}{}", name, meant.empty() ? ";" : meant,
            meant.empty() ? "allowed" : "Allowed", fmt::join(names(), ", "), also_allowed);
}

Strategy load_file(const std::string& name) {
  const std::filesystem::path path = name;
  std::error_code ignored;
  const bool looks_like_file = path.extension() == ".json" || path.extension() == ".pb";
  if (!looks_like_file && !std::filesystem::exists(path, ignored)) {
    refuse(name, ", or a strategy file (.json, .pb)");
  }
  return load(path);
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

}  // namespace

std::span<const Builder> builders() { return kBuilders; }

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const Builder& builder : kBuilders) result.emplace_back(builder.name);
  return result;
}

Strategy build(std::string_view name, const graph::Graph& graph, const cluster::Cluster& cluster,
               uint64_t seed) {
  const Builder* builder = find(name);
  if (builder == nullptr) refuse(std::string(name), "");
  Strategy strategy;
  strategy.id = name;
  strategy.variables = builder->build(graph, cluster, seed);
  for (const cluster::Host& host : cluster.hosts) {
    for (int k = 0; k < host.workers; ++k)
      strategy.replicas.push_back(fmt::format("{}:CPU:{}", host.address, k));
  }
  return strategy;
}

bool Named::is_builder() const { return find(base) != nullptr; }

Named parse_name(const std::string& name_or_file) {
  const size_t plus = name_or_file.rfind('+');
  if (plus == std::string::npos || !is_compressor(std::string_view(name_or_file).substr(plus + 1))) {
    return {name_or_file, {}};
  }
  return {name_or_file.substr(0, plus), parse_compression(name_or_file.substr(plus + 1))};
}

void check_name(const std::string& name_or_file) {
  const Named named = parse_name(name_or_file);
  if (!named.is_builder()) load_file(named.base);
}

Strategy load_or_build(const std::string& name_or_file, const graph::Graph& graph,
                       const cluster::Cluster& cluster, uint64_t seed) {
  const Named named = parse_name(name_or_file);
  Strategy strategy = named.is_builder() ? build(named.base, graph, cluster, seed) : load_file(named.base);
  if (named.compression) {
    strategy = compressed(std::move(strategy), graph, *named.compression);
    strategy.id = name_or_file;
    check_all_reduced(strategy, *named.compression);
  }
  try {
    validate(strategy, graph, cluster);
  } catch (const InputError& error) {
    bad_input("{}: {}", name_or_file, error.what());
  }
  return strategy;
}

}  // namespace entrain::strategy
