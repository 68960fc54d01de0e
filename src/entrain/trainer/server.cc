#include "entrain/trainer/server.h"

#include "entrain/base/error.h"
#include "entrain/plan/plan.h"
#include "entrain/sync/engine.h"
#include "entrain/trainer/agreement.h"

namespace entrain {

void serve(Context& context) {
  transport::Transport& transport = *context.transport;
  sync::Engine engine(transport, context.job.timeout_s, context.engines++);
  // The first agreement waits for the workers' first forward and backward, however long they take.
  const graph::Graph graph = agree_on_graph(transport, std::nullopt, Deadline::never());
  const auto settle = [&] {
    const auto strategy = agree_on_strategy(transport, {}, Deadline::never());
    engine.set_plan(plan::make_plan(strategy, graph, context.cluster), graph, {});
  };
  settle();
  for (int64_t step = 0;;) {
    switch (take_order(transport)) {
      case Order::kStep:
        engine.begin(step++);
        engine.serve();
        break;
      case Order::kSwitch:
        settle();
        break;
      case Order::kEnd:
        return;
      default:
        fail("rank {}: unknown order of rank 0", context.rank());
    }
  }
}

}  // namespace entrain
