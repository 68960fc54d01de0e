#include "entrain/tuner/shape_pricer.h"

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/base/quantile.h"
#include "entrain/plan/assignment.h"
#include "entrain/plan/shape_memory.h"
#include "entrain/planner/improve.h"
#include "entrain/planner/planner.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/shape_text.h"

namespace entrain::tuner {

namespace {

// Where each micro-batch begins and how large it is, in order.
std::vector<std::pair<int64_t, int64_t>> ranges_of(const strategy::Shape& shape, int64_t examples) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const auto& of : plan::assign(shape, examples).micro_batches) ranges.emplace_back(of.begin, of.count);
  return ranges;
}

}  // namespace

ShapePricer::ShapePricer(const graph::Graph& graph, const cluster::Cluster& cluster,
                         const simulator::Calibration& calibration, const PricerOptions& options)
    : graph_(graph),
      cluster_(cluster),
      options_(options),
      simulation_(graph, cluster, calibration, options.examples, options.exact_ranks) {
  for (const auto& builder : options.builders) {
    built_.push_back(strategy::build(builder, graph, cluster, options.seed));
  }
  if (options.micro_batches > 0) {
    strategy::Shape whole =
        strategy::data_parallel(static_cast<int>(graph.layers.size()), cluster.worker_ranks());
    whole.micro_batches = options.micro_batches;
    ranges_ = ranges_of(whole, options.examples);
  }
}

strategy::Strategy ShapePricer::synchronized(const strategy::Shape& shape) const {
  strategy::Strategy strategy = built_.front();
  strategy.shape = shape;
  return strategy;
}

std::optional<Priced> ShapePricer::price(const strategy::Shape& shape) const {
  const int fixed = options_.micro_batches;
  if (fixed > 0 && shape.micro_batches_or_default() != fixed) return std::nullopt;
  try {
    validate(shape, static_cast<int>(graph_.layers.size()), cluster_, options_.examples);
  } catch (const InputError&) {
    return std::nullopt;
  }
  if (fixed > 0 && ranges_of(shape, options_.examples) != ranges_) return std::nullopt;
  if (!plan::missing_memory(shape, graph_, cluster_, options_.examples, options_.optimizer_slots).empty()) {
    return std::nullopt;
  }
  const bool shared =
      shape.most_replicas() > 1 || shape.cells.size() > 1;  // tied variables have holders, too
  std::optional<Priced> best;
  for (size_t b = 0; b < (shared ? built_.size() : 1); ++b) {
    strategy::Strategy tried = built_[b];
    tried.shape = shape;
    const double seconds = simulation_.estimate(tried).seconds;
    if (best && seconds >= best->seconds) continue;
    tried.id = strategy::to_text(shape);
    if (shape.most_replicas() > 1) tried.id += " " + options_.builders[b];
    best = {std::move(tried), seconds};
  }
  return best;
}

std::vector<Priced> ShapePricer::price(const std::vector<strategy::Shape>& shapes) const {
  std::vector<Priced> priced;
  for (const auto& shape : shapes) {
    if (auto one = price(shape)) priced.push_back(*std::move(one));
  }
  std::stable_sort(priced.begin(), priced.end(),
                   [](const Priced& a, const Priced& b) { return a.seconds < b.seconds; });
  return priced;
}

std::vector<strategy::Shape> ShapePricer::planned(int most) const {
  planner::PlanOptions plan;
  plan.most = most;
  plan.limits.optimizer_slots = options_.optimizer_slots;
  if (options_.micro_batches > 0) plan.micro_batches = {options_.micro_batches};
  std::vector<strategy::Shape> shapes;
  for (auto& candidate : planner::plan_shapes(graph_, cluster_, options_.examples, plan)) {
    shapes.push_back(std::move(candidate.shape));
  }
  return shapes;
}

std::vector<strategy::Shape> ShapePricer::improved(const std::vector<strategy::Shape>& starts,
                                                   int evaluations, uint64_t seed) const {
  planner::Limits limits;
  limits.optimizer_slots = options_.optimizer_slots;
  const planner::Estimator estimator(graph_, cluster_, options_.examples, limits);
  planner::ImproveOptions options;
  options.seed = seed;
  options.evaluations = evaluations;
  const auto sync_of = [&](const strategy::Shape& shape) { return synchronized(shape); };
  std::vector<strategy::Shape> shapes;
  for (auto& improved : planner::improve(estimator, starts, simulation_, sync_of, options)) {
    shapes.push_back(std::move(improved.shape));
  }
  return shapes;
}

double measured_over_simulated(const std::vector<dataset::Trial>& trials,
                               const simulator::EventSimulation& simulation) {
  std::vector<double> ratios;
  for (const dataset::Trial& trial : trials) {
    if (!trial.ok() || !trial.strategy.shape) continue;
    ratios.push_back(trial.step_s() / simulation.estimate(trial.strategy).seconds);
  }
  return ratios.empty() ? 1 : median(std::move(ratios));
}

}  // namespace entrain::tuner
