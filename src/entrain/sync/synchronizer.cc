#include "entrain/sync/synchronizer.h"

#include "entrain/sync/dense.h"
#include "entrain/sync/sparse.h"

namespace entrain::sync {

std::unique_ptr<Synchronizer> make_synchronizer(const plan::Message& message, const plan::Plan& plan,
                                                const graph::Graph& graph, transport::Transport& transport,
                                                collective::EventLoop& loop) {
  switch (message.exchange) {
    case plan::Exchange::kSparseServer:
      return std::make_unique<SparseServer>(message, plan, graph, transport, loop);
    case plan::Exchange::kSparseAllGather:
      return std::make_unique<SparseAllGather>(message, plan, graph, transport, loop);
    default:
      return std::make_unique<Dense>(message, transport, loop);
  }
}

}  // namespace entrain::sync
