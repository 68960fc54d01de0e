// Horovod's way: all-reduce with merge groups in ready order. Horovod merges what is ready within a few
// milliseconds, AutoDist 128 variables at a time; both can put a whole VGG into one message that waits for
// the end of backward. Groups of 4 MB (kOverlapRule) leave while backward still runs.
#include "entrain/strategy/builders/builders.h"
#include "entrain/strategy/builders/parts.h"

namespace entrain::strategy {

Configs build_allreduce(const graph::Graph& graph, const cluster::Cluster&, uint64_t) {
  return merged_collectives(graph, kOverlapRule);
}

}  // namespace entrain::strategy
