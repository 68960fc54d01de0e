#include "entrain/sync/synchronizer.h"

#include "entrain/base/error.h"
#include "entrain/sync/dense.h"
#include "entrain/sync/power_sgd.h"
#include "entrain/sync/sparse.h"
#include "entrain/sync/top_k.h"

namespace entrain::sync {

std::unique_ptr<Synchronizer> make_synchronizer(const plan::Message& message, const graph::Graph& graph,
                                                transport::Transport& transport, EventLoop& loop) {
  const graph::Variable& first = graph.variables[message.slices.front().variable];
  switch (message.exchange) {
    case plan::Exchange::kSparseServer:
      return std::make_unique<SparseServer>(message, first, transport, loop);
    case plan::Exchange::kSparseAllGather:
      return std::make_unique<SparseAllGather>(message, first, transport, loop);
    case plan::Exchange::kLowRank:
      return std::make_unique<PowerSgd>(message, graph, transport, loop);
    case plan::Exchange::kTopK:
      return std::make_unique<TopK>(message, transport, loop);
    case plan::Exchange::kDense:
      return std::make_unique<Dense>(message, transport, loop);
  }
  fail("message {}: exchange {} is unknown", message.what, static_cast<int>(message.exchange));
}

}  // namespace entrain::sync
