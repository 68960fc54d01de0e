// PyTorch DistributedDataParallel's way: buckets of 25 MiB in the order in which gradients become ready
// (about the reverse of the variables), the first of 1 MiB. A bucket closes once it has reached its limit.
#include "entrain/strategy/builders/builders.h"
#include "entrain/strategy/builders/parts.h"

namespace entrain::strategy {

Configs build_ddp(const graph::Graph& graph, const cluster::Cluster&, uint64_t) {
  return merged_collectives(graph, {1 << 20, 25 << 20, false});
}

}  // namespace entrain::strategy
