#include "entrain/train/loop.h"

#include <fmt/format.h>

#include "entrain/base/progress.h"
#include "entrain/job/failure.h"
#include "entrain/job/step_control.h"
#include "entrain/train/steps.h"

namespace entrain::train {
namespace {

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
  Progress progress("step", shown_total(options.steps), options.progress && context.rank() == 0);
  TrainingClock clock;
  const auto test = [&](int64_t after) {
    if (const auto result = run.test(after, clock)) report.tests.push_back(*result);
  };
  int64_t step = first_step;
  for (; step < options.steps; ++step) {
    const bool enough = options.seconds > 0 && clock.seconds() >= options.seconds;
    if (run.stops_before(step, enough)) {
      report.interrupted = job::stop_was_requested();
      break;
    }
    const double loss = job::named_failure(context, [&] { return run.make(step, clock); });
    const int64_t made = step + 1;
    if (options.test_every > 0 && made % options.test_every == 0 && made < options.steps) test(made);
    run.save(made, /*last=*/false);
    progress.update(made, progress_note(loss, report));
  }
  run.complete();
  report.total_time = clock.seconds();
  run.save(step, /*last=*/true);  // before the test: whatever happens to that, the work is kept
  if (step > first_step) test(step);
  run.finish(report);
  return report;
}

}  // namespace entrain::train
