#include "entrain/trials/compare.h"

#include "entrain/base/progress.h"
#include "entrain/job/step_control.h"
#include "entrain/models/registry.h"
#include "entrain/parallel/distributed.h"
#include "entrain/parallel/server.h"
#include "entrain/strategy/parts.h"

namespace entrain::trials {

Comparison compare(job::Context& context, const CompareOptions& options) {
  Comparison result;
  if (!context.trains()) {
    parallel::serve(context);
    return result;
  }
  const auto model = models::make_model(options.model, options.seed);
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  auto generator = at::detail::createCPUGenerator(options.seed + static_cast<uint64_t>(context.rank()));
  const models::Batch batch = model->synthetic(options.batch_size, generator);
  parallel::Distributed distributed(context, *model, optimizer,
                                    {options.strategies.front(), options.seed, true});
  const int64_t each = options.warmup + options.steps;
  const int64_t total = each * static_cast<int64_t>(options.strategies.size());
  Progress progress("step", total, options.progress && context.rank() == 0);
  distributed.step(model->loss(batch));  // captures G; not measured
  job::StepControl control(context);
  int64_t done = 0;
  for (const strategy::Request& request : options.strategies) {
    const auto wanted = request.made_for(distributed.graph(), context.cluster, options.seed);
    strategy::check_parts(wanted, request.text());
    distributed.switch_strategy(wanted);
    Compared row{wanted, {}, plan::link_bound(distributed.plan(), distributed.graph(), context.cluster)};
    // A step's forward waits for the messages of the step before it: as many are waited for as are sent.
    for (int64_t step = 0; step < each; ++step) {
      result.interrupted = control.next(false, false, done + 1 == total) == job::Order::Kind::kStop;
      if (result.interrupted) break;
      const auto start = Clock::now();
      distributed.step(model->loss(batch));
      if (step >= options.warmup) row.step_times.push_back(seconds_since(start));
      progress.update(++done, request.text());
    }
    if (!row.step_times.empty()) result.rows.push_back(std::move(row));
    if (result.interrupted) break;
  }
  result.graph = distributed.graph();
  result.link_bound_best = plan::best_link_bound(result.graph, context.cluster);
  return result;
}

}  // namespace entrain::trials
