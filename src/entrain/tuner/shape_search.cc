#include "entrain/tuner/shape_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "entrain/planner/costs.h"
#include "entrain/simulator/analytic/calibrate.h"
#include "entrain/tuner/canonical_shape.h"
#include "entrain/tuner/result.h"
#include "entrain/tuner/shape_rivals.h"

namespace entrain::tuner {
namespace {

using dataset::Trial;
using strategy::Shape;

// Trials that the simulation is fitted to: the first differ most, the fastest are what the search is about.
constexpr size_t kFirstTrials = 8, kFastestTrials = 8;
// A shape that is simulated to be slower than the best measured one by more than this is not tried.
constexpr double kWorthATrial = 1.05;

double best_of(const std::vector<Trial>& trials) {
  double best = std::numeric_limits<double>::infinity();
  for (const Trial& trial : trials) {
    if (trial.ok()) best = std::min(best, trial.step_s());
  }
  return best;
}

bool tried(const std::vector<Trial>& trials, const strategy::Strategy& strategy) {
  return std::any_of(trials.begin(), trials.end(),
                     [&](const Trial& trial) { return same(trial.strategy, strategy); });
}

std::string name_of_pipeline(const Shape& shape) {
  return fmt::format("pipeline on {} ranks, m={} {}", shape.ranks().size(), shape.micro_batches,
                     shape.schedule);
}

}  // namespace

ShapeSearch::ShapeSearch(const graph::Graph& graph, const cluster::Cluster& cluster,
                         const ShapeSearchOptions& options)
    : graph_(graph), cluster_(cluster), options_(options) {
  planner::require_profile(graph);
}

std::vector<Proposal> ShapeSearch::rivals() {
  const ShapePricer pricer(graph_, cluster_, options_.start, options_.pricer);
  std::vector<Proposal> proposals;
  std::vector<Shape> of_one_host = shapes_of_one_host(graph_, cluster_, options_.pricer.examples);
  if (options_.pricer.micro_batches > 0) {
    for (Shape& shape : of_one_host) shape.micro_batches = options_.pricer.micro_batches;
  }
  auto alone = pricer.price(of_one_host);
  if (!alone.empty()) {
    strategy::Strategy& fastest = alone.front().strategy;
    const int host = cluster_.host_of(fastest.shape->ranks().front());
    fastest.id = fmt::format("one host ({})", cluster_.hosts[static_cast<size_t>(host)].address);
    proposals.push_back({std::move(fastest), kAloneOrigin});
  }
  auto pipelines = pricer.price(plain_pipelines(graph_, cluster_, options_.pricer.examples));
  for (size_t i = 0; i < std::min(pipelines.size(), static_cast<size_t>(options_.pipelines)); ++i) {
    strategy::Strategy& pipeline = pipelines[i].strategy;
    pipeline.id = name_of_pipeline(*pipeline.shape);
    proposals.push_back({std::move(pipeline), kPipelineOrigin});
  }
  return proposals;
}

simulator::Calibration ShapeSearch::calibrated(const std::vector<Trial>& trials) const {
  std::vector<const Trial*> runs;
  for (const Trial& trial : trials) {
    if (trial.ok() && trial.origin != kConfirmOrigin) runs.push_back(&trial);
  }
  const size_t first = std::min(runs.size(), kFirstTrials);
  std::stable_sort(runs.begin() + static_cast<std::ptrdiff_t>(first), runs.end(),
                   [](const Trial* a, const Trial* b) { return a->step_s() < b->step_s(); });
  runs.resize(std::min(runs.size(), kFirstTrials + kFastestTrials));
  return simulator::calibrate(graph_, cluster_, runs, options_.start);
}

// Of the local search: what was planned, and the fastest so far.
std::vector<Shape> ShapeSearch::starts(const ShapePricer& pricer, const std::vector<Trial>& trials) const {
  std::vector<Shape> shapes = pricer.planned(options_.planned);
  std::vector<const Trial*> shaped;
  for (const Trial& trial : trials) {
    if (trial.ok() && trial.strategy.shape) shaped.push_back(&trial);
  }
  std::stable_sort(shaped.begin(), shaped.end(),
                   [](const Trial* a, const Trial* b) { return a->step_s() < b->step_s(); });
  for (size_t i = 0; i < std::min<size_t>(shaped.size(), 4); ++i)
    shapes.push_back(*shaped[i]->strategy.shape);
  return shapes;
}

double shared_cores(const dataset::Domain& domain, int cores) {
  const bool emulated =
      domain.cluster.kind == cluster::Kind::kLab || domain.cluster.kind == cluster::Kind::kLocal;
  return emulated && domain.settings.compute == "real" ? cores : 0;
}

ShapeSearchOptions shape_options(const dataset::Domain& domain, int cores, bool mixes_examples) {
  const int workers = domain.cluster.workers();
  ShapeSearchOptions options;
  options.pricer.examples = domain.settings.batch_size * workers;
  options.pricer.seed = domain.settings.seed;
  options.pricer.micro_batches = mixes_examples ? workers : 0;
  options.start.cores = shared_cores(domain, cores);
  return options;
}

std::unique_ptr<ShapeSource> shapes_for(const dataset::Domain& domain, const ShapeSearchOptions& options) {
  const auto& layers = domain.graph.layers;
  const auto timed = [](const graph::Layer& layer) { return !layer.times.empty(); };
  const bool all_timed = !layers.empty() && std::all_of(layers.begin(), layers.end(), timed);
  if (!all_timed || domain.cluster.workers() < 2) return nullptr;
  return std::make_unique<ShapeSearch>(domain.graph, domain.cluster, options);
}

std::vector<Proposal> ShapeSearch::ask(const std::vector<Trial>& trials) {
  const ShapePricer pricer(graph_, cluster_, calibrated(trials), options_.pricer);
  std::vector<Shape> shapes = starts(pricer, trials);
  for (Shape& improved :
       pricer.improved(shapes, options_.evaluations, options_.pricer.seed + trials.size())) {
    shapes.push_back(std::move(improved));
  }
  for (Shape& shape : shapes) shape = canonical(shape, cluster_);
  const double limit = kWorthATrial * best_of(trials) / measured_over_simulated(trials, pricer.simulation());
  std::vector<Proposal> proposals;
  for (Priced& priced : pricer.price(shapes)) {
    if (priced.seconds > limit || static_cast<int>(proposals.size()) == options_.batch) break;
    const bool again = std::any_of(proposals.begin(), proposals.end(), [&](const Proposal& proposal) {
      return same(proposal.strategy, priced.strategy);
    });
    if (!again && !tried(trials, priced.strategy))
      proposals.push_back({std::move(priced.strategy), "planned"});
  }
  return proposals;
}

}  // namespace entrain::tuner
