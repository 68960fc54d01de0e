#include "entrain/strategy/builders/registry.h"

#include <fmt/ranges.h>
#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/base/suggest.h"

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
  if (builder == nullptr) refuse_name(std::string(name));
  Strategy strategy;
  strategy.id = name;
  strategy.variables = builder->build(graph, cluster, seed);
  for (const cluster::Host& host : cluster.hosts) {
    for (int k = 0; k < host.workers; ++k)
      strategy.replicas.push_back(fmt::format("{}:CPU:{}", host.address, k));
  }
  return strategy;
}

bool is_builder(std::string_view name) { return find(name) != nullptr; }

void refuse_name(const std::string& name, const char* also_allowed) {
  const std::string meant = did_you_mean(name, names());
  bad_input("unknown strategy \"{}\"{} {}: {}{}", name, meant.empty() ? ";" : meant,
            meant.empty() ? "allowed" : "Allowed", fmt::join(names(), ", "), also_allowed);
}

}  // namespace entrain::strategy
