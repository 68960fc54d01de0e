#include "entrain/trials/standing_job.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/base/quantile.h"
#include "entrain/job/control.h"
#include "entrain/models/registry.h"
#include "entrain/parallel/distributed.h"
#include "entrain/parallel/server.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/validate.h"
#include "entrain/trials/replay.h"

namespace entrain::trials {
namespace {

constexpr int64_t kFirstSteps = 6;  // allocators and caches settle, then times are taken

// A model of the zoo on one synthetic batch.
class ModelStepper final : public Stepper {
 public:
  ModelStepper(job::Context& context, const StandingOptions& options)
      : model_(models::make_model(options.model, options.seed)),
        // Thousands of steps on one batch must not end in NaN or denormals, which compute at another speed.
        optimizer_(model_->parameters(), torch::optim::SGDOptions(1e-7)),
        distributed_(context, *model_, optimizer_, {"allreduce", options.seed, true}),
        name_(options.model),
        batch_size_(options.batch_size) {
    auto generator = at::detail::createCPUGenerator(options.seed + static_cast<uint64_t>(context.rank()));
    batch_ = model_->synthetic(options.batch_size, generator);
  }

  void step() override { distributed_.step(model_->loss(batch_)); }
  void switch_strategy(const strategy::Strategy& s) override { distributed_.switch_strategy(s); }
  graph::Graph graph() const override {
    graph::Graph g = distributed_.profiled_graph();
    g.model = name_;
    g.batch_size = batch_size_;
    return g;
  }

 private:
  std::shared_ptr<models::Model> model_;
  torch::optim::SGD optimizer_;
  parallel::Distributed distributed_;
  std::string name_;
  int64_t batch_size_;
  models::Batch batch_;
};

std::unique_ptr<Stepper> make_stepper(job::Context& context, const StandingOptions& options) {
  const auto found = profile_to_replay(options.compute);
  if (!found) return std::make_unique<ModelStepper>(context, options);
  const graph::Graph& profile = *found;
  return std::make_unique<Replay>(
      context, profile, strategy::build("allreduce", profile, context.cluster, options.seed), options.seed);
}

// Steps that are not steady: so many, and for so long, for steps of milliseconds are noisy, and cheap.
constexpr int64_t kUnsteadySteps = 9;
constexpr double kUnsteadySeconds = 0.5;

bool is_steady(const std::vector<double>& seconds, double steady) {
  const double spread = quantile(seconds, 0.75) - quantile(seconds, 0.25);
  return spread / median(seconds) / std::sqrt(static_cast<double>(seconds.size())) <= steady;
}

}  // namespace

void check_compute(const std::string& compute) { profile_to_replay(compute); }

StandingJob::StandingJob(job::Context& context, const StandingOptions& options)
    : StandingJob(context, context.trains() ? make_stepper(context, options) : nullptr) {}

StandingJob::StandingJob(job::Context& context, std::unique_ptr<Stepper> stepper)
    : context_(context), stepper_(std::move(stepper)) {
  if (!context.trains()) return;  // follow() serves
  run(kFirstSteps);
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
        stepper_->switch_strategy({});
        break;
      case job::Order::Kind::kEndTrials:
        stepper_.reset();
        return;
      default:
        fail("rank {}: unknown order '{}' for a trial", context_.rank(), static_cast<char>(order.kind));
    }
  }
}

// Steps are ordered in runs, not one by one. The first of a run is not counted: the order has to pass the
// messages of the step before it, so it starts late at some ranks and finds some of its waiting done.
Measurement StandingJob::measure(const strategy::Strategy& strategy, const TrialMeasureOptions& options) {
  strategy::validate(strategy, graph_, context_.cluster);
  job::give_order(context_, job::To::kWorkers, {job::Order::Kind::kSwitch});
  stepper_->switch_strategy(strategy);
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
