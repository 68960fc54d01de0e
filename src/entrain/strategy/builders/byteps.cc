// BytePS's way: tensors cut into parts of about 4 MB (its default partition, 4,096,000 bytes), spread over
// all servers by load. Pushed and pulled by priority, which is the default here: what forward needs first
// goes first.
#include <algorithm>

#include "entrain/strategy/builders/builders.h"
#include "entrain/strategy/builders/parts.h"

namespace entrain::strategy {
namespace {

constexpr int64_t kPartBytes = 4'096'000;

}  // namespace

Configs build_byteps(const graph::Graph& graph, const cluster::Cluster& cluster, uint64_t) {
  Servers servers(cluster);
  Configs configs;
  for (const graph::Variable& v : graph.variables) {
    const int64_t wanted = (step_bytes(v) + kPartBytes - 1) / kPartBytes;
    const int shards = static_cast<int>(std::min(wanted, rows(v)));
    configs.push_back(cut(v, 0, shards, [&](int64_t bytes) { return servers.place(bytes); }));
  }
  return configs;
}

}  // namespace entrain::strategy
