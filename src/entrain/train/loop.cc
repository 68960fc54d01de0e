#include "entrain/train/loop.h"

#include <fmt/format.h>

#include "entrain/base/progress.h"
#include "entrain/job/control.h"
#include "entrain/job/failure.h"
#include "entrain/train/steps.h"

namespace entrain::train {
namespace {

bool is_due(int64_t made, int64_t every) { return every > 0 && made % every == 0; }

std::string progress_note(double loss, const TrainReport& report) {
  std::string note = fmt::format("loss {:.4f}", loss);
  if (!report.tests.empty() && report.tests.back().error >= 0) {
    note += fmt::format(", test error {:.1f}%", 100 * report.tests.back().error);
  }
  return note;
}

}  // namespace

TrainReport run_loop(job::Context& context, const TrainOptions& options, int64_t first_step, Run& run) {
  TrainReport report;
  report.first_step = first_step;
  const bool together = !options.optimizer.asynchronous();
  Progress progress("step", shown_total(options.steps), options.progress && context.rank() == 0);
  TrainingClock clock;
  const auto test = [&](int64_t after) {
    if (const auto result = run.test(after, clock)) report.tests.push_back(*result);
  };
  int64_t step = first_step;
  for (; step < options.steps; ++step) {
    const bool enough = options.seconds > 0 && clock.seconds() >= options.seconds;
    if (run.stops_before(step, enough)) {
      report.interrupted = context.stop_signal() != 0;
      break;
    }
    const double loss = job::named_failure(context, [&] { return run.make(step, clock); });
    const int64_t made = step + 1;
    const bool tests = is_due(made, options.test_every) && made < options.steps;
    if (tests) test(made);
    run.save(made, /*last=*/false);
    const bool saves = is_due(made, options.checkpoint_every) && !options.out.empty();
    // Nobody begins the next step meanwhile: its deadlines are those of an exchange. Workers that train apart
    // await tests themselves.
    if (saves && together) job::await_all(context, "a checkpoint");
    if (tests && !options.optimizer.apart()) job::await_all(context, "a test");
    progress.update(made, progress_note(loss, report));
  }
  run.complete();
  report.total_time = clock.seconds();
  run.save(step, /*last=*/true);  // before the test: whatever happens to that, the work is kept
  if (together && options.optimizer.apart() && !options.out.empty()) job::await_all(context, "a checkpoint");
  if (step > first_step) test(step);
  run.finish(report);
  return report;
}

}  // namespace entrain::train
