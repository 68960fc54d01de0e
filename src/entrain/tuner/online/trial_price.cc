#include "entrain/tuner/online/trial_price.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "entrain/base/units.h"
#include "entrain/plan/moves.h"
#include "entrain/planner/bound.h"
#include "entrain/tuner/result.h"
#include "entrain/tuner/shape_pricer.h"

namespace entrain::tuner {
namespace {

using dataset::Trial;

// By how much a prediction may be too long, once the trials so far have corrected what is common to all.
constexpr double kDoubt = 0.05;
// Layers were timed once, maybe while the machine did something else: the bound may be too high by this.
constexpr double kBoundDoubt = 0.1;

const Trial* fastest(const std::vector<Trial>& trials) {
  const Trial* best = nullptr;
  for (const Trial& trial : trials) {
    if (trial.ok() && (best == nullptr || trial.step_s() < best->step_s())) best = &trial;
  }
  return best;
}

std::vector<int> holders(const strategy::Shape& shape, const std::vector<int>& layers) {
  std::vector<int> ranks;
  for (const int layer : layers) {
    const auto more = shape.holders_of(layer);
    ranks.insert(ranks.end(), more.begin(), more.end());
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace

TrialPrice::TrialPrice(const dataset::Domain& domain, const ShapeSearchOptions& options, int steps_per_trial)
    : graph_(domain.graph),
      cluster_(domain.cluster),
      optimizer_slots_(options.pricer.optimizer_slots),
      micro_batches_(options.pricer.micro_batches),
      steps_per_trial_(steps_per_trial),
      bound_s_((1 - kBoundDoubt) * planner::lower_bound(domain.graph, domain.cluster, options.pricer.examples,
                                                        {.shared_speed = options.start.cores})
                                       .seconds),
      simulation_(domain.graph, domain.cluster, options.start, options.pricer.examples,
                  options.pricer.exact_ranks) {}

strategy::Shape TrialPrice::shape_of(const strategy::Strategy& strategy) const {
  if (strategy.shape) return *strategy.shape;
  strategy::Shape whole =
      strategy::data_parallel(static_cast<int>(graph_.layers.size()), cluster_.worker_ranks());
  whole.micro_batches = micro_batches_;
  return whole;
}

// As it was measured before; else simulated, corrected by what the simulation's errors were.
double TrialPrice::expected_s(const strategy::Strategy& strategy, const std::vector<Trial>& trials) const {
  std::vector<Trial> before;
  std::copy_if(trials.begin(), trials.end(), std::back_inserter(before),
               [&](const Trial& trial) { return same(trial.strategy, strategy); });
  if (const Trial* measured = fastest(before)) return measured->step_s();
  strategy::Strategy shaped = strategy;
  shaped.shape = shape_of(strategy);
  return simulation_.estimate(shaped).seconds * measured_over_simulated(trials, simulation_);
}

double TrialPrice::move_s(const strategy::Shape& from, const strategy::Shape& to) const {
  std::vector<std::vector<int>> layers_of(graph_.variables.size());
  for (size_t layer = 0; layer < graph_.layers.size(); ++layer) {
    for (const int v : graph_.layers[layer].variables) {
      layers_of[static_cast<size_t>(v)].push_back(static_cast<int>(layer));
    }
  }
  std::vector<plan::Held> things;
  for (size_t v = 0; v < graph_.variables.size(); ++v) {
    if (layers_of[v].empty()) continue;
    things.push_back({graph_.variables[v].bytes() * (1 + optimizer_slots_), holders(from, layers_of[v]),
                      holders(to, layers_of[v])});
  }
  std::vector<double> out(cluster_.hosts.size()), in(cluster_.hosts.size());
  for (const plan::Move& move : plan::moves(things)) {
    const int source = cluster_.host_of(move.from), target = cluster_.host_of(move.to);
    if (source == target) continue;
    out[static_cast<size_t>(source)] += static_cast<double>(things[move.thing].bytes);
    in[static_cast<size_t>(target)] += static_cast<double>(things[move.thing].bytes);
  }
  double busiest = 0;
  for (size_t h = 0; h < cluster_.hosts.size(); ++h) {
    busiest = std::max(busiest, 8e-9 * std::max(out[h], in[h]) / cluster_.hosts[h].bandwidth_gbit);
  }
  return busiest;
}

bool TrialPrice::nothing_left(const std::vector<Trial>& trials, int64_t steps_left) const {
  const Trial* best = fastest(trials);
  if (best == nullptr) return false;
  const auto after = static_cast<double>(std::max<int64_t>(0, steps_left - steps_per_trial_));
  return after * std::max(0.0, best->step_s() - bound_s_) <= best->step_s();
}

std::string TrialPrice::objection(const strategy::Strategy& strategy, const std::vector<Trial>& trials,
                                  const Underway& underway) const {
  const Trial* best = fastest(trials);
  if (best == nullptr) return "";
  const double best_s = best->step_s();
  const double expected = expected_s(strategy, trials);
  const strategy::Shape shape = shape_of(strategy);
  const double moves = move_s(underway.shape, shape) + move_s(shape, shape_of(best->strategy));
  const double cost = moves + best_s + steps_per_trial_ * std::max(0.0, expected - best_s);
  const auto after = static_cast<double>(std::max<int64_t>(0, underway.steps_left - steps_per_trial_));
  const double gain = after * std::max(0.0, best_s - std::max((1 - kDoubt) * expected, bound_s_));
  if (gain > cost) return "";
  return fmt::format("not run: {} expected, and the trial would cost {} for a gain of {} at most",
                     format_seconds(expected), format_seconds(cost), format_seconds(gain));
}

}  // namespace entrain::tuner
