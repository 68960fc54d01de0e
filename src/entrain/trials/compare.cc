#include "entrain/trials/compare.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "entrain/base/progress.h"
#include "entrain/job/step_control.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/models/registry.h"
#include "entrain/parallel/distributed.h"
#include "entrain/parallel/server.h"
#include "entrain/parallel/slowdown.h"
#include "entrain/pipeline/profile/graph_layers.h"
#include "entrain/strategy/parts.h"
#include "entrain/strategy/stored.h"
#include "entrain/transport/control_tags.h"
#include "entrain/trials/shape_stepper.h"
#include "entrain/tuner/result.h"
#include "entrain/tuner/shape_search.h"

namespace entrain::trials {

namespace {

constexpr const char* kPlanned = "planned shape";

// What each strategy gets: some steps, of which the first are thrown away.
class Measuring {
 public:
  Measuring(job::Context& context, const CompareOptions& options, int64_t strategies)
      : options_(options),
        total_((options.warmup + options.steps) * strategies),
        progress_("step", total_, options.progress && context.rank() == 0),
        control_(context) {}

  // A step's forward waits for the messages of the step before it: as many are waited for as are sent. False:
  // it was told to stop.
  template <typename Step>
  bool measure(const std::string& name, std::vector<double>& seconds, const Step& step) {
    for (int64_t i = 0; i < options_.warmup + options_.steps; ++i) {
      if (control_.next(false, false, done_ + 1 == total_) == job::Order::Kind::kStop) return false;
      const auto start = Clock::now();
      step();
      if (i >= options_.warmup) seconds.push_back(seconds_since(start));
      progress_.update(++done_, name);
    }
    return true;
  }

 private:
  const CompareOptions& options_;
  int64_t total_, done_ = 0;
  Progress progress_;
  job::StepControl control_;
};

// Rank 0's choice: one host alone, the plain pipeline that is simulated to be fastest, and the best shape.
std::vector<strategy::Strategy> choose_shapes(const job::Context& context, const CompareOptions& options,
                                              models::Model& model, const graph::Graph& graph) {
  dataset::Domain domain;
  domain.graph = graph;
  domain.graph.batch_size = options.batch_size;
  domain.cluster = context.cluster;
  domain.settings.batch_size = options.batch_size;
  domain.settings.seed = options.seed;
  const layers::Sequence sequence = model.sequence();
  if (sequence.layers.empty()) return {};
  const int64_t all = options.batch_size * context.workers();
  auto generator = at::detail::createCPUGenerator(options.seed);
  const models::Batch batch = model.synthetic(all, generator);
  pipeline::add_layers(domain.graph, model, sequence, batch.input, batch.target,
                       pipeline::profiled_sizes(all), {.repeats = 3, .budget_s = 2});
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const auto shapes = tuner::shapes_for(domain, cores, layers::mixes_examples(model));
  if (!shapes) return {};
  std::vector<strategy::Strategy> chosen;
  for (const auto& [strategy, origin] : shapes->rivals()) {
    const bool second = origin == tuner::kPipelineOrigin && chosen.size() > 1;
    if (second) continue;
    chosen.push_back(strategy);
    const size_t ranks = strategy.shape->ranks().size();
    chosen.back().id =
        origin == tuner::kAloneOrigin ? "one host alone" : fmt::format("pipeline on {} ranks", ranks);
  }
  for (const auto& [strategy, origin] : shapes->ask({})) {
    const bool known = std::any_of(chosen.begin(), chosen.end(),
                                   [&, &of = strategy](const auto& other) { return tuner::same(of, other); });
    if (known) continue;
    chosen.push_back(strategy);
    chosen.back().id = kPlanned;
    break;
  }
  return chosen;
}

// Collective over the workers: rank 0's.
std::vector<strategy::Strategy> agreed(job::Context& context, const std::vector<strategy::Strategy>& own) {
  nlohmann::json texts = nlohmann::json::array();
  for (const auto& strategy : own) texts.push_back(strategy::to_json(strategy));
  const std::string text = job::tell_workers(context, texts.dump(), transport::tags::kTrialShape,
                                             Deadline::after(context.job.timeout_s), "the shapes to compare");
  std::vector<strategy::Strategy> all;
  for (const auto& each : nlohmann::json::parse(text)) {
    all.push_back(strategy::from_json(each.get<std::string>()));
  }
  return all;
}

bool compare_shapes(job::Context& context, const CompareOptions& options,
                    const std::vector<strategy::Strategy>& shapes, Measuring& measuring, Comparison& result) {
  if (shapes.empty()) return true;
  ShapeStepper stepper(context, models::make_model(options.model, options.seed), *shapes.front().shape,
                       {options.batch_size * context.workers(), options.seed,
                        parallel::slowdown_of(context.cluster, context.rank())});
  for (const auto& strategy : shapes) {
    stepper.switch_strategy(strategy);
    Compared row{strategy, {}, {}};
    const bool whole = measuring.measure(strategy.id, row.step_times, [&] { stepper.step(); });
    if (!row.step_times.empty()) result.rows.push_back(std::move(row));
    if (!whole) return false;
  }
  return true;
}

}  // namespace

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
  distributed.step(model->loss(batch));  // captures G; not measured
  std::vector<strategy::Strategy> shapes;
  if (options.shapes) {
    distributed.finish();
    if (context.rank() == 0) shapes = choose_shapes(context, options, *model, distributed.graph());
    shapes = agreed(context, shapes);
  }
  Measuring measuring(context, options, static_cast<int64_t>(options.strategies.size() + shapes.size()));
  for (const strategy::Request& request : options.strategies) {
    const auto wanted = request.made_for(distributed.graph(), context.cluster, options.seed);
    strategy::check_parts(wanted, request.text());
    distributed.switch_strategy(wanted);
    Compared row{wanted, {}, plan::link_bound(distributed.plan(), distributed.graph(), context.cluster)};
    result.interrupted =
        !measuring.measure(request.text(), row.step_times, [&] { distributed.step(model->loss(batch)); });
    if (!row.step_times.empty()) result.rows.push_back(std::move(row));
    if (result.interrupted) break;
  }
  if (!result.interrupted) {
    distributed.finish();
    result.interrupted = !compare_shapes(context, options, shapes, measuring, result);
  }
  result.graph = distributed.graph();
  result.link_bound_best = plan::best_link_bound(result.graph, context.cluster);
  return result;
}

}  // namespace entrain::trials
