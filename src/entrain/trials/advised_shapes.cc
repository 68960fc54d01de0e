#include "entrain/trials/advised_shapes.h"

#include "entrain/base/error.h"
#include "entrain/job/control.h"
#include "entrain/job/failure.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/transport/control_tags.h"

namespace entrain::trials {

strategy::Strategy with_agreed_shape(job::Context& context, const strategy::Strategy& strategy, int layers) {
  strategy::Strategy all = strategy;
  const std::string own = strategy.shape ? strategy::to_text(*strategy.shape) : "";
  const std::string text = job::tell_workers(context, own, transport::tags::kTrialShape,
                                             Deadline::after(context.job.timeout_s), "the trial's shape");
  all.shape = strategy::parse_shape(text, layers);
  return all;
}

strategy::Strategy AdvisedShapes::with_shape(strategy::Strategy strategy) const {
  if (!strategy.shape) strategy.shape = strategy::data_parallel(layers_, context_.cluster.worker_ranks());
  return strategy;
}

// The order says when rank 0 is done: profiling and planning may take long, and an order is waited for as
// long as rank 0 is alive.
strategy::Shape AdvisedShapes::begin(const std::function<graph::Graph()>& profile) {
  strategy::Strategy first;
  if (context_.rank() == 0) {
    first = job::named_failure(context_, [&] { return with_shape(advisor_->begin(profile())); });
    job::give_order(context_, job::To::kWorkers, {job::Order::Kind::kSwitch});
    advised_.want(first);  // its synchronization, once a step has been made
  } else {
    job::take_order(context_);
  }
  return *with_agreed_shape(context_, first, layers_).shape;
}

job::Order::Kind AdvisedShapes::before_step(parallel::Shaped& shaped, bool stop, bool last) {
  const auto change = [&](const strategy::Strategy& wanted) {
    shaped.switch_strategy(
        with_agreed_shape(context_, context_.rank() == 0 ? with_shape(wanted) : wanted, layers_));
  };
  return job::named_failure(context_, [&] { return advised_.before_step(change, stop, last); });
}

void AdvisedShapes::after_step(const parallel::Shaped& shaped, int64_t step, double seconds) {
  advised_.after_step(step, seconds, shaped.strategy_id(),
                      []() -> graph::Graph { fail("a profile is asked for once, before the first step"); });
}

}  // namespace entrain::trials
