#include "entrain/parallel/server.h"

#include <map>

#include "entrain/base/error.h"
#include "entrain/job/agreement.h"
#include "entrain/job/control.h"
#include "entrain/plan/plan.h"
#include "entrain/sync/engine.h"

namespace entrain::parallel {
namespace {

// What a handle of the workers needs here.
class Served {
 public:
  Served(job::Context& context, int handle)
      : context_(context), engine_(*context.transport, context.job.timeout_s, handle) {}

  void agree_on_model() {
    graph_ = job::agree_on_graph(*context_.transport, std::nullopt, deadline());
    agree_on_plan();
  }
  void agree_on_plan() {
    const auto strategy = job::agree_on_strategy(*context_.transport, {}, deadline());
    engine_.set_plan(plan::make_plan(strategy, graph_, context_.cluster), graph_, {});
  }
  void step() {
    engine_.begin(step_++);
    engine_.serve();
  }

 private:
  // The order was given when the workers were about to agree.
  Deadline deadline() const { return Deadline::after(context_.job.timeout_s); }

  job::Context& context_;
  sync::Engine engine_;
  graph::Graph graph_;
  int64_t step_ = 0;
};

}  // namespace

void serve(job::Context& context) {
  if (context.trains()) bad_input("serve() on rank {}, which trains in this cluster", context.rank());
  std::map<int, Served> handles;
  while (true) {
    const job::Order order = job::take_order(context);
    if (order.kind == job::Order::Kind::kEndServing) return;
    const auto number = static_cast<int>(order.number);
    Served& handle = handles.try_emplace(number, context, number).first->second;
    switch (order.kind) {
      case job::Order::Kind::kModel:
        handle.agree_on_model();
        break;
      case job::Order::Kind::kSwitch:
        handle.agree_on_plan();
        break;
      case job::Order::Kind::kServeStep:
        handle.step();
        break;
      case job::Order::Kind::kCloseHandle:
        handles.erase(number);
        break;
      default:
        fail("rank {}: unknown order of rank 0", context.rank());
    }
  }
}

}  // namespace entrain::parallel
