#include "entrain/trials/standing_job.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "entrain/base/error.h"
#include "entrain/base/quantile.h"
#include "entrain/job/control.h"
#include "entrain/parallel/server.h"
#include "entrain/strategy/validate.h"
#include "entrain/trials/advised_shapes.h"

namespace entrain::trials {
namespace {

constexpr int64_t kInAShape = 1;  // of kSwitch: the strategy has a shape, and its text follows

// Steps that are not steady: so many, and for so long, for steps of milliseconds are noisy, and cheap.
constexpr int64_t kUnsteadySteps = 9;
constexpr double kUnsteadySeconds = 0.5;

bool is_steady(const std::vector<double>& seconds, double steady) {
  const double spread = quantile(seconds, 0.75) - quantile(seconds, 0.25);
  return spread / median(seconds) / std::sqrt(static_cast<double>(seconds.size())) <= steady;
}

}  // namespace

StandingJob::StandingJob(job::Context& context, const StandingOptions& options)
    : StandingJob(context, context.trains() ? make_stepper(context, options) : nullptr) {}

StandingJob::StandingJob(job::Context& context, std::unique_ptr<Stepper> stepper)
    : context_(context), stepper_(std::move(stepper)) {
  if (!context.trains()) return;  // follow() serves
  run(stepper_->first_steps());
  graph_ = stepper_->graph();
}

StandingJob::~StandingJob() {
  if (context_.rank() != 0 || !stepper_) return;
  try {
    job::give_order(context_, job::To::kWorkers, {job::Order::Kind::kEndTrials});
  } catch (const std::exception&) {
    // Whoever called measure() has seen this error.
  }
}

std::vector<double> StandingJob::run(int64_t steps) {
  std::vector<double> seconds;
  for (int64_t i = 0; i < steps; ++i) {
    const auto start = Clock::now();
    stepper_->step();
    seconds.push_back(seconds_since(start));
  }
  return seconds;
}

void StandingJob::follow() {
  if (!context_.trains()) return parallel::serve(context_);
  while (true) {
    const job::Order order = job::take_order(context_);  // rank 0 may think for long between two trials
    switch (order.kind) {
      case job::Order::Kind::kSteps:
        run(order.number);
        break;
      case job::Order::Kind::kSwitch:
        stepper_->switch_strategy(order.number == kInAShape ? with_shape_of({}) : strategy::Strategy{});
        break;
      case job::Order::Kind::kEndTrials:
        stepper_.reset();
        return;
      default:
        fail("rank {}: unknown order '{}' for a trial", context_.rank(), static_cast<char>(order.kind));
    }
  }
}

strategy::Strategy StandingJob::with_shape_of(const strategy::Strategy& strategy) {
  return with_agreed_shape(context_, strategy, static_cast<int>(graph_.layers.size()));
}

void StandingJob::switch_to(const strategy::Strategy& strategy) {
  job::give_order(context_, job::To::kWorkers, {job::Order::Kind::kSwitch, strategy.shape ? kInAShape : 0});
  stepper_->switch_strategy(strategy.shape ? with_shape_of(strategy) : strategy);
}

// Steps are ordered in runs, not one by one. The first of a run is not counted: the order has to pass the
// messages of the step before it, so it starts late at some ranks and finds some of its waiting done.
Measurement StandingJob::measure(const strategy::Strategy& strategy, const TrialMeasureOptions& options) {
  strategy::validate(strategy, graph_, context_.cluster);
  if (strategy.shape) {
    strategy::validate(*strategy.shape, static_cast<int>(graph_.layers.size()), context_.cluster,
                       graph_.batch_size * context_.workers());
  }
  switch_to(strategy);
  Measurement result;
  const auto measure_more = [&](int64_t steps) {
    job::give_order(context_, job::To::kWorkers, {job::Order::Kind::kSteps, 1 + steps});
    const auto seconds = run(1 + steps);
    result.seconds.insert(result.seconds.end(), seconds.begin() + 1, seconds.end());
  };
  if (options.deadline_s > 0) {
    measure_more(1);
    result.over_deadline = result.seconds.front() > options.deadline_s;
    if (result.over_deadline) return result;
  }
  const auto done = [&] { return static_cast<int64_t>(result.seconds.size()); };
  const auto enough = [&] {
    if (done() < options.least) return false;
    if (done() >= options.most || is_steady(result.seconds, options.steady)) return true;
    const double total = std::accumulate(result.seconds.begin(), result.seconds.end(), 0.0);
    return done() >= kUnsteadySteps && total >= kUnsteadySeconds;
  };
  while (!enough()) {
    const int64_t more = done() < options.least ? options.least - done() : std::max<int64_t>(3, done() / 2);
    measure_more(std::min(more, std::max(options.least, options.most) - done()));
  }
  return result;
}

}  // namespace entrain::trials
